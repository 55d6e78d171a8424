"""`doctor` prints what a report of a fault needs, and finds the fault."""

from __future__ import annotations

import platform

import pytest
import tensorflow as tf

from tf_memsafe import self_check as checks
from tf_memsafe.command import main


def test_versions_memory_and_the_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    for part in (f"{tf.__version__} (supported: ", platform.python_version(), "/device:CPU:0"):
        assert part in text
    assert "what a limit of auto would be" in text
    assert text.splitlines()[-1].startswith("self-check  passed")


def test_a_check_that_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks.self_check.cache_clear()
    monkeypatch.setitem(checks.CHECKS, "XLA's buffer assignment", lambda _: False)
    try:
        assert main(["doctor"]) == 1
    finally:
        checks.self_check.cache_clear()
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("self-check  failed: ")
    assert "has changed XLA's buffer assignment" in last
