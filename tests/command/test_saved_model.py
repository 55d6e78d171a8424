"""`explain` reports on a signature of a SavedModel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import tensorflow as tf

from tests.programs import COUNT, LIMIT, kernel
from tf_memsafe.command import main

Explain = Callable[..., int]


class Model(tf.Module):
    """Its signature leaves the number of points open."""

    @tf.function(input_signature=[tf.TensorSpec([None, 3], name="x")])
    def predict(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"sums": kernel(x, x)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model, path = Model(), tmp_path_factory.mktemp("models") / "model"
    tf.saved_model.save(model, str(path), signatures={"predict": model.predict})
    return path


@pytest.fixture
def explain(folder: Path) -> Explain:
    def run(*arguments: str) -> int:
        return main(["explain", str(folder), *arguments])

    return run


SHAPE = ("--shape", f"x={COUNT},3")


def test_a_report(explain: Explain, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "report.html"
    options = ("--signature", "predict", *SHAPE, "--memory-limit", str(LIMIT))
    assert explain(*options, "--report", str(page)) == 0
    text = capsys.readouterr().out
    assert "signature_wrapper_predict: fits" in text
    assert "loop over an axis of 100 in " in text
    assert text.endswith(f"{page}\n")
    assert "The program as it is run" in page.read_text()


def test_without_a_limit(explain: Explain, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("--signature", "predict", *SHAPE) == 0
    assert "limit              none" in capsys.readouterr().out


def test_what_does_not_fit(explain: Explain, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("--signature", "predict", *SHAPE, "--memory-limit", "10") == 1
    assert "signature_wrapper_predict: does not fit" in capsys.readouterr().out


WRONG = {
    "": "explain: there is no signature serving_default; there are: predict",
    "--signature predict": "explain: give a --shape for x, which is (None, 3)",
    "--signature predict --shape y=3": "explain: there is no input y; there are: x",
    "--signature predict --shape x=3,4": "explain: x has the shape (None, 3), not (3, 4)",
    "--signature predict --shape x=3,3 --report /dev/null/x": "explain: cannot write /dev/null/x: ",
}


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong(explain: Explain, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(*line.split()) == 2
    error = capsys.readouterr().err
    assert WRONG[line] in error
    assert error.count("\n") == 1
