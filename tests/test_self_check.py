"""The self-check passes with this TensorFlow, and says what has changed in another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tf_memsafe
from tests.test_project import ROOT
from tf_memsafe import self_check, xla
from tf_memsafe.errors import IncompatibleTensorFlowError


@pytest.fixture(autouse=True)
def unchecked() -> Iterator[None]:
    self_check.self_check.cache_clear()
    yield
    self_check.self_check.cache_clear()


def test_this_tensorflow_passes() -> None:
    self_check.self_check()


def test_the_range_is_that_of_the_package() -> None:
    assert f"tensorflow{self_check.SUPPORTED}" in (ROOT / "setup.cfg").read_text()


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("called_graphs", "how the operations of a function are named"),
        ("hlo_module", "how a function's XLA program is read"),
        ("measure", "XLA's buffer assignment"),
        ("stablehlo_function", "how StableHLO text is run"),
    ],
)
def test_a_change_is_named_before_a_limit_is_set(
    monkeypatch: pytest.MonkeyPatch, name: str, part: str
) -> None:
    def changed(*_arguments: object) -> None:
        raise AttributeError("gone")

    monkeypatch.setattr(xla, name, changed)
    with pytest.raises(IncompatibleTensorFlowError, match=part):
        tf_memsafe.set_memory_limit("1GB")
    assert tf_memsafe.get_memory_limit() is None


def test_a_wrong_answer_is_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_check, "find_operation", lambda *_: None)
    with pytest.raises(IncompatibleTensorFlowError, match="named"):
        self_check.self_check()
