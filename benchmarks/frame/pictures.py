"""Figures of what the benchmarks measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from .results import ways
from .table import Row, seconds

DPI = 120
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b")


def draw(name: str, result: dict[str, Any], folder: Path) -> Path | None:
    """The script's figure, if there is something to compare or a curve to see; where it is."""
    rows = [row for row in result.get("rows", []) if seconds(row["contenders"][0])]
    if not rows:
        return None
    figure = _curves(rows) if rows[0]["series"] else _bars(rows)
    figure.suptitle(result["claim"].strip().split("\n")[0].rstrip("."), fontsize=10)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.png", dpi=DPI)
    return folder / f"{name}.png"


def _bars(rows: list[Row]) -> Figure:
    """Seconds, and resident memory, of each contender on each case."""
    names = ways(rows)
    height = 1.2 + len(rows) * (0.16 * len(names) + 0.14)
    figure = Figure(figsize=(11, height), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for k, name in enumerate(names):
        places, times, memories = [], [], []
        for i, row in enumerate(rows):
            for outcome in row["contenders"]:
                if outcome["name"] == name and outcome["seconds"]:
                    places.append(i + (k + 0.5) / len(names) * 0.8 - 0.4)
                    times.append(seconds(outcome))
                    memories.append(outcome["resident"] / 1e6)
        for axes, values in ((left, times), (right, memories)):
            colour = COLOURS[k % len(COLOURS)]
            axes.barh(places, values, 0.8 / len(names), label=name, color=colour)
    _mark_limits(right, rows)
    left.set_yticks(range(len(rows)), [row["name"] for row in rows], fontsize=8)
    left.invert_yaxis()
    for axes, what in ((left, "seconds"), (right, "MB by which the process grew")):
        axes.set(xscale="log", xlabel=what)
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.grid(axis="x", alpha=0.3)
    figure.legend(
        *left.get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8
    )
    return figure


def _mark_limits(axes: Axes, rows: list[Row]) -> None:
    """The one limit of all rows, if anything comes near it."""
    limits = {row["contenders"][0]["limit"] for row in rows}
    most = max(outcome["resident"] for row in rows for outcome in row["contenders"])
    if len(limits) == 1 and None not in limits and most > min(limits) / 20:
        axes.axvline(limits.pop() / 1e6, color="black", linestyle="--", linewidth=1)


def _curves(rows: list[Row]) -> Figure:
    """Time by work, with a line that is linear, and the peak, for each series."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for k, series in enumerate(dict.fromkeys(row["series"] for row in rows)):
        points = [row for row in rows if row["series"] == series]
        work = [row["least"]["flops"] / points[0]["least"]["flops"] for row in points]
        times = [seconds(row["contenders"][0]) for row in points]
        last = times[-1] or 0.0
        colour = COLOURS[k]
        left.loglog(work, times, "o-", label=series, color=colour)
        left.loglog(work, [last * w / work[-1] for w in work], ":", color=colour)
        for key, style in (("proven", "o-"), ("resident", "x:")):
            peaks = [(point["contenders"][0][key] or float("nan")) / 1e6 for point in points]
            right.semilogx(work, peaks, style, color=colour)
    _mark_limits_across(right, rows)
    left.set(xlabel="work, over the smallest", ylabel="seconds (dotted: linear in the work)")
    right.set(
        xlabel="work, over the smallest",
        ylabel="MB proven (crosses: resident; dashed: the limit)",
        ylim=(0, None),
    )
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    left.legend(fontsize=8)
    return figure


def _mark_limits_across(axes: Axes, rows: list[Row]) -> None:
    limit = rows[0]["contenders"][0]["limit"]
    if limit:
        axes.axhline(limit / 1e6, color="black", linestyle="--", linewidth=1)
