"""The notebooks run from the first cell to the last, and are committed as they run."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.processes import ROOT

NOTEBOOKS = sorted(Path(ROOT, "notebooks").glob("*.ipynb"))


def code(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]


def test_there_are_five() -> None:
    assert [path.stem[:2] for path in NOTEBOOKS] == ["01", "02", "03", "04", "05"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_with_its_outputs(path: Path) -> None:
    cells = code(path)
    counts = [cell.execution_count for cell in cells]
    assert counts == list(range(1, 1 + len(cells)))
    outputs = [output for cell in cells for output in cell.outputs]
    assert not any(output.output_type == "error" for output in outputs)
    assert any("image/png" in output.get("data", {}) for output in outputs)
    # Sizes are parameters, so that larger ones can be asked for.
    assert "parameters" in cells[0].metadata.tags


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(path, 4)
    client = NotebookClient(
        notebook, timeout=600, resources={"metadata": {"path": str(path.parent)}}
    )
    client.execute()
