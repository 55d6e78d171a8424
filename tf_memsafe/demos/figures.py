"""Figures of the demos: drawn without a display, and saved."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from tf_memsafe.demos.console import say
from tf_memsafe.limits import format_bytes


def panels(count: int, title: str) -> tuple[Figure, list[Axes]]:
    """A figure with this many panels side by side.

    Example: `figure, (left, right) = panels(2, "Nearest neighbours")`
    """
    figure = Figure(figsize=(5.5 * count, 4.2), layout="constrained")
    figure.suptitle(title)
    axes = [figure.add_subplot(1, count, place + 1) for place in range(count)]
    for each in axes:
        each.grid(alpha=0.3)
        each.spines[["top", "right"]].set_visible(False)
    return figure, axes


class Sizes(LogFormatter):
    """Writes the numbers of a logarithmic axis as sizes, where it would write them at all."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return format_bytes(int(x)) if super().__call__(x, pos) else ""


def mark_limit(axes: Axes, limit: int | None) -> None:
    """Draws a limit in bytes, if there is one, across sizes that go upwards."""
    if limit is not None:
        axes.axhline(limit, color="firebrick", ls="--", label="the limit")


def show_bytes(axes: Axes) -> None:
    """Writes the numbers on the vertical axis as sizes, on a logarithmic scale."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(Sizes())
    axes.yaxis.set_minor_formatter(Sizes())


def save(figure: Figure, path: Path) -> None:
    """Saves a figure, makes the folders above it, and says where it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    say(f"Figure: {path}")
