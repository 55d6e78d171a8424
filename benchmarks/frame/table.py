"""A case as text: one line for each contender."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

Outcome = dict[str, Any]
Row = dict[str, Any]


def seconds(outcome: Outcome) -> float | None:
    """The median of its turns; None if it has no figure."""
    return median(outcome["seconds"]) if outcome["seconds"] else None


def spread(outcome: Outcome) -> float:
    """From the fastest to the slowest turn, over the median."""
    times = outcome["seconds"]
    return float((max(times) - min(times)) / median(times)) if len(times) > 1 else 0.0


def ratio(row: Row, outcome: Outcome) -> float | None:
    """How many times our seconds it takes: the median over the rounds that both have."""
    ours, theirs = row["contenders"][0]["seconds"], outcome["seconds"]
    pairs = list(zip(ours, theirs, strict=False))
    return median(b / a for a, b in pairs) if pairs else None


def shown(value: float) -> str:
    """Seconds, with three digits."""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if value * factor >= 1 or unit == "us":
            return f"{_three(value * factor)} {unit}"
    raise AssertionError


def _three(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def megabytes(value: float | None) -> str:
    return "" if value is None else f"{value / 1e6:,.0f}"


def line(row: Row) -> str:
    """The case's name, and below it a line for each contender."""
    return "\n".join([row["name"], *(_outcome(row, outcome) for outcome in row["contenders"])])


def _outcome(row: Row, outcome: Outcome) -> str:
    name = f"  {outcome['name']:28}"
    taken, times = seconds(outcome), ratio(row, outcome)
    if taken is None:
        return f"{name}{outcome['problem']}"
    cells = [f"{shown(taken):>9} +-{spread(outcome):4.0%}"]
    cells.append(f"{times:8.2f} x" if times else f"{'':10}")
    cells.append(f"{megabytes(outcome['resident']):>9} MB resident")
    if outcome["proven"] is not None:
        peaks = map(megabytes, (outcome["proven"], outcome["whole"]))
        cells.append("{:>9} MB proven,{:>10} MB as written".format(*peaks))
    if outcome["error"] is not None:
        cells.append(f"  {'agrees' if outcome['agrees'] else 'DIFFERS'}: {outcome['error']:.1e}")
    if outcome["problem"]:
        cells.append(f"  then {outcome['problem']}")
    return name + "".join(cells)


def problems(rows: Sequence[Row]) -> list[str]:
    """What is wrong: results that differ, and contenders that failed."""
    return list(_problems(rows))


def _problems(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        for outcome in row["contenders"]:
            if not outcome["agrees"]:
                yield f"{row['name']}: {outcome['name']} differs by {outcome['error']:.1e}"
            if outcome["problem"].startswith("failed"):
                yield f"{row['name']}: {outcome['name']} {outcome['problem']}"
