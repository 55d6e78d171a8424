"""A report's picture, where matplotlib is installed."""

from __future__ import annotations

import io
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tf_memsafe.report.content import Report
    from tf_memsafe.report.program import Program


DPI = 120
"""Of pictures made of pixels."""


def can_plot(program: Program | None) -> bool:
    """Whether there is a picture: something was compiled, and matplotlib is installed."""
    compiled = program is not None and any(side.timeline for side in program.sides)
    return compiled and find_spec("matplotlib") is not None


def plot(report: Report, program: Program | None) -> Figure:
    """See `Report.plot`."""
    if find_spec("matplotlib") is None:
        raise ImportError("a report's picture needs matplotlib: pip install tf_memsafe[report]")
    sides = [side for side in program.sides if side.timeline] if program else []
    if program is None or not sides:
        raise ValueError(f"nothing of {report.name} was compiled, so there is no timeline to plot")
    drawing = import_module("tf_memsafe.report.drawing")  # slow: it imports matplotlib
    figure: Figure = drawing.draw(report, program, sides)
    return figure


def image(figure: Figure, kind: str) -> bytes:
    """A figure as the bytes of a file of this kind, "svg" or "png": the same ones each time."""
    from matplotlib import rc_context  # noqa: PLC0415  # there is a figure, so it is imported

    file = io.BytesIO()
    with rc_context({"svg.hashsalt": "tf_memsafe"}):
        figure.savefig(file, format=kind, dpi=DPI, metadata={"Date": None} if kind == "svg" else {})
    return file.getvalue()
