"""Draws the memory in use over the schedules of programs, with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from tf_memsafe.limits import format_bytes
from tf_memsafe.report.figure import image

if TYPE_CHECKING:
    from tf_memsafe.report.content import Report, Tensor
    from tf_memsafe.report.program import Program, Side

LABELLED = 3
"""How many of a peak's tensors are named."""

CLEAR_OF = 10
"""How many times as large as another a peak has to be for a logarithmic axis."""

BEFORE, AFTER, LIMIT = "#8c6bb1", "#2b8cbe", "#d7301f"
"""Colours that stay apart for readers who do not see red and green apart."""


class ReportFigure(Figure):
    """A figure that notebooks show, whether or not pyplot is in use."""

    def _repr_png_(self) -> bytes:
        return image(self, "png")


def draw(report: Report, program: Program, sides: Sequence[Side]) -> Figure:
    """A panel for each of the program's sides that was compiled."""
    figure = ReportFigure(figsize=(5.5 * len(sides) + 1, 4.2), layout="constrained")
    axes = figure.subplots(1, len(sides), sharey=True, squeeze=False)[0]
    for side, each in zip(sides, axes, strict=True):
        _draw(each, report, program, side)
    _scale(axes, report)
    figure.suptitle(f"{report.name}: memory in use over XLA's schedule", fontsize=11)
    return figure


def _draw(axes: Axes, report: Report, program: Program, side: Side) -> None:
    timeline = side.timeline
    assert timeline is not None
    is_new = side is program.after
    colour = AFTER if is_new else BEFORE
    in_use = [*timeline.in_use, timeline.in_use[-1]]
    axes.step(range(len(in_use)), in_use, where="post", color=colour, linewidth=1.5)
    axes.fill_between(range(len(in_use)), in_use, step="post", color=colour, alpha=0.25)
    if report.memory_limit is not None:
        axes.axhline(report.memory_limit, color=LIMIT, linestyle="--", linewidth=1.2)
    new = "as it is run" if report.fits else "the smallest that was found"
    title = new if is_new else "as written"
    axes.set_title(f"{title}: peak {format_bytes(max(in_use))}", fontsize=10, color=colour)
    axes.set_xlabel("step that takes or frees a buffer", fontsize=9)
    axes.set_xlim(0, len(in_use) - 1)
    axes.tick_params(labelsize=8)
    axes.locator_params(axis="x", integer=True)
    _label(axes, timeline.peak_step + 0.5, max(in_use), program.at_peak(side)[:LABELLED])


def _label(axes: Axes, step: float, peak: int, tensors: list[Tensor]) -> None:
    """Names the largest tensors of a peak, in the room above it."""
    text = "at the peak:\n" + "\n".join(map(_short, tensors))
    left = step < axes.get_xlim()[1] / 2
    axes.annotate(
        text,
        (step, peak),
        xytext=(0.02 if left else 0.98, 0.97),
        textcoords="axes fraction",
        ha="left" if left else "right",
        va="top",
        multialignment="left",
        fontsize=7.5,
        linespacing=1.4,
        arrowprops={"arrowstyle": "->", "color": "0.4", "linewidth": 0.8},
        bbox={"boxstyle": "round", "facecolor": "white", "edgecolor": "0.8", "alpha": 0.9},
    )


def _short(tensor: Tensor) -> str:
    where = f"  {tensor.source.short}" if tensor.source else ""
    return f"{format_bytes(tensor.bytes)}  {tensor.type}  {tensor.op}{where}"


def _tick(size: float) -> str:
    """`50 MB`, not `50.00 MB`."""
    number, unit = format_bytes(int(size)).split()
    return f"{float(number):g} {unit}"


def _scale(axes: Any, report: Report) -> None:
    """One axis of bytes for all, logarithmic where a linear one would not show the smaller peak."""
    first = axes[0]
    sizes = [report.peak_before, report.peak_after, report.memory_limit or report.peak_after]
    low, high = min(sizes), max(sizes)
    if high > CLEAR_OF * low:
        first.set_yscale("log")
        first.yaxis.set_major_locator(LogLocator(base=10))
        first.set_ylim(low / 10, high * (high / low) ** 0.6)
    else:
        first.set_ylim(0, high * 1.6)
    first.yaxis.set_major_formatter(FuncFormatter(lambda size, _: _tick(size)))
    if report.memory_limit is not None:
        text = f"limit {format_bytes(report.memory_limit)}"
        place = {"xy": (0.99, report.memory_limit), "xycoords": ("axes fraction", "data")}
        first.annotate(text, **place, ha="right", va="bottom", fontsize=8, color=LIMIT)
