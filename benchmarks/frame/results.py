"""RESULTS.md, made of what the benchmarks wrote as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from .table import Outcome, Row, megabytes, ratio, seconds, shown, spread

Results = dict[str, dict[str, Any]]
"""What each script wrote, by the script's name, in the order of their sections."""

HEAD = """# Benchmarks

Made by {commands}.{missing}

Each contender runs in a process of its own, on the same data, with all cores; they take turns, or
come one after the other where the machine's memory is too small for all at once. Seconds are
medians over the turns, after a first call that is not counted, unless it is a long one of what
compiles little or nothing; ± is from the fastest to the slowest turn. (2.1x) is how many times our
seconds it takes. *Bound* is the share of our time that the machine would need at its best, as
measured below. Resident memory is how far a process grew, at most, over one that holds its
libraries and the data; what a compiler leaves behind is in it. *Proven* is the peak that tf_memsafe
vouches for before it runs, arguments included, and *as written* is that of the same function
without a limit; "fits" is one that runs as it was written. What a contender has no figure for took
longer, or more memory, than the cell says. A target counts as met within {margin:.0%}. In *italics*
is no way to do the work but a part of it that ours cannot do without: where that alone takes longer
than a target leaves, the target is out of reach.
"""

MARGIN = 0.03
"""By which a time may miss its target: less is noise."""


def document(
    results: Results,
    machine: dict[str, str],
    commands: Sequence[str],
    pictures: list[str],
    missing: Sequence[str] = (),
) -> str:
    """The page.

    results: `numbers` of roofline, if it is there, are what bounds are held to. commands: by
    which they were made, in order. missing: the scripts and the rows that have no
    results yet.
    """
    numbers = results.get("roofline", {}).get("numbers", {})
    without = f" Not run: {', '.join(missing)}." if missing else ""
    made = ", then ".join(f"`{command}`" for command in commands)
    head = HEAD.format(commands=made, missing=without, margin=MARGIN)
    parts = [head, *_machine(machine)]
    for name, result in results.items():
        parts += _section(name, result, numbers, pictures)
    return "\n".join(parts).rstrip() + "\n"


def _machine(machine: dict[str, str]) -> list[str]:
    return ["## Machine\n", *(f"- {name}: {value}" for name, value in machine.items()), ""]


def _section(
    name: str, result: dict[str, Any], numbers: dict[str, float], pictures: list[str]
) -> list[str]:
    title, *more = result["claim"].strip().split("\n\n")
    title = title.rstrip(".")
    lines = [f"## {title}\n", *(part.strip() + "\n" for part in more)]
    lines.append(f"`benchmarks/{name}.py`\n")
    if "text" in result:
        return [*lines, "```text", result["text"].rstrip(), "```", ""]
    rows = result["rows"]
    lines += [*_times(rows, numbers), "", *_memory(rows), ""]
    if notes := _notes(rows):
        lines += [*notes, ""]
    if f"{name}.png" in pictures:
        lines += [f"![{title}](pictures/{name}.png)", ""]
    return lines


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table; the first row is its head."""
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return [head, "| --- " * len(rows[0]) + "|", *body]


def contenders(rows: Sequence[Row]) -> list[str]:
    """Their names, in the order in which they first come."""
    return list(dict.fromkeys(outcome["name"] for row in rows for outcome in row["contenders"]))


def floors(rows: Sequence[Row]) -> set[str]:
    """The names of those that are parts of the work."""
    return {each["name"] for row in rows for each in row["contenders"] if each["floor"]}


def ways(rows: Sequence[Row]) -> list[str]:
    """The contenders that do all of the work."""
    return [name for name in contenders(rows) if name not in floors(rows)]


def _times(rows: Sequence[Row], numbers: dict[str, float]) -> list[str]:
    names = contenders(rows)
    bounded = any(_bound(row, numbers) for row in rows)
    aimed = any(_targets(row) for row in rows)
    parts = floors(rows)
    titles = [f"*{name}*" if name in parts else name for name in names]
    head = ["seconds", *titles] + ["bound"] * bounded + ["target"] * aimed
    found = [head]
    for row in rows:
        by_name = {outcome["name"]: outcome for outcome in row["contenders"]}
        cells = [row["name"], *(_time(row, by_name.get(name)) for name in names)]
        found.append(cells + [_bound(row, numbers)] * bounded + [_verdict(row)] * aimed)
    return table(found)


def _time(row: Row, outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    taken, times = seconds(outcome), ratio(row, outcome)
    if taken is None:
        return str(outcome["problem"])
    cell = shown(taken) + (f" ±{spread(outcome):.0%}" if len(outcome["seconds"]) > 1 else "")
    if times and outcome is not row["contenders"][0]:
        cell += f" ({times:.2f}x)"
    return cell if outcome["agrees"] else f"{cell} **differs by {outcome['error']:.0e}**"


def _bound(row: Row, numbers: dict[str, float]) -> str:
    """The least time for the work that the case says it has, over ours."""
    ours, least = seconds(row["contenders"][0]), row["least"]
    if not ours or not numbers:
        return ""
    needed = max(
        least["flops"] / numbers[f"flops {least['dtype']}"],
        least["exponentials"] / numbers[f"exponentials {least['dtype']}"],
        least["bytes"] / numbers["bytes"],
    )
    return f"{needed / ours:.0%}" if needed else ""


# --- targets ------------------------------------------------------------------------------------


def _unreachable(row: Row, outcome: Outcome) -> str:
    """Which part of the work takes longer by itself than the target leaves for all of it."""
    theirs = seconds(outcome)
    for floor in row["contenders"]:
        least = seconds(floor) if floor["floor"] else None
        if least and theirs and least > theirs / outcome["speed"]:
            return f", out of reach: {floor['name']} takes {least / theirs:.2f} of its time"
    return ""


def _targets(row: Row) -> list[Outcome]:
    return [each for each in row["contenders"] if each["speed"] or each["memory"]]


def _verdict(row: Row) -> str:
    """Met, or by which contenders it is not."""
    if not row["contenders"][0]["seconds"]:
        return "**no figure**"
    missed = [what for outcome in _targets(row) for what in _missed(row, outcome)]
    return "**" + "; ".join(missed) + "**" if missed else "met"


def _missed(row: Row, outcome: Outcome) -> Iterator[str]:
    times, name, ours = ratio(row, outcome), outcome["name"], row["contenders"][0]
    if times is None and outcome["over"]:
        times = outcome["over"] / median(ours["seconds"])
    if times is not None and outcome["speed"] and times < outcome["speed"] * (1 - MARGIN):
        reach = _unreachable(row, outcome)
        yield f"{name}: {times:.2f}x of {outcome['speed']:.2f}x{reach}"
    if outcome["memory"] and outcome["seconds"] and ours["resident"]:
        memory = outcome["resident"] / ours["resident"]
        if memory < outcome["memory"]:
            yield f"{name}: {memory:.1f}x of {outcome['memory']:.1f}x the memory"


# --- memory -------------------------------------------------------------------------------------


def _memory(rows: Sequence[Row]) -> list[str]:
    names = ways(rows)
    found = [["MB", "limit", "as written", "proven", *(f"resident: {name}" for name in names)]]
    for row in rows:
        ours = row["contenders"][0]
        by_name = {outcome["name"]: outcome for outcome in row["contenders"]}
        stated = [megabytes(ours[key]) for key in ("limit", "whole", "proven")]
        if ours["seconds"] and ours["proven"] is None:
            stated[1] = "fits"
        found.append([row["name"], *stated, *(_resident(by_name.get(name)) for name in names)])
    return table(found)


def _resident(outcome: Outcome | None) -> str:
    return megabytes(outcome["resident"]) if outcome and outcome["seconds"] else ""


def _notes(rows: Sequence[Row]) -> list[str]:
    found = {
        f"- {outcome['name']}: {outcome['note']}"
        for row in rows
        for outcome in row["contenders"]
        if outcome["note"]
    }
    return sorted(found)
