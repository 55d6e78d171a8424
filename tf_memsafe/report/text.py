"""A report as plain text of one screen."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tf_memsafe.limits import format_bytes

if TYPE_CHECKING:
    from tf_memsafe.report.content import Blocker, Loop, Report, Tensor
    from tf_memsafe.source import SourceLine

BAR = 40
"""Characters of the longest bar."""

SHOWN = 4
"""How many of each kind are shown, FEW of those that take two lines; the report has all."""

FEW = 2

WIDTH = 100
"""Characters of the longest line: what is longer is cut off, or goes on in another."""

PLACE = 48
"""Characters of the longest place in the user's code."""


def lines(report: Report) -> Iterator[str]:
    """The lines of a report. They are ASCII but for the user's own names and code."""
    yield f"{report.name}: {'fits' if report.fits else 'does not fit'}"
    yield from _sizes(report)
    if report.time is not None:
        yield f"  time            {share(report.time)} of that as written (estimate)"
    if report.problem:
        yield from wrapped(f"left as it is: {report.problem}")
    for failure in report.failures:
        yield from wrapped(f"a program was dropped: {failure}")
    yield from _loops(report.loops)
    for each in report.recomputed[:FEW]:
        yield from wrapped(str(each))
    yield from _more(report.recomputed, FEW, "  {} more loops of yours: see report.recomputed")
    if report.rewrites:
        yield "  rewritten:"
        yield from _rewrites(report)
    if report.left:
        yield "  largest tensors left:"
        yield from _tensors(report.left[:SHOWN])
    elif not report.loops:
        yield "  largest tensors:"
        yield from _tensors(report.largest)
    if report.blockers:
        more = len(report.blockers) - FEW
        yield f"  could not be cut{f' ({more} more: see report.blockers)' if more > 0 else ''}:"
        for blocker in report.blockers[:FEW]:
            yield from _blocker(blocker)
    if report.refusals:
        yield f"  {len(report.refusals)} left alone by rewrites: see report.refusals"


def _sizes(report: Report) -> Iterator[str]:
    """The limit and the peaks, each with a bar."""
    sizes = [
        ("limit      ", report.memory_limit),
        ("peak before", report.peak_before),
        ("peak after ", report.peak_after),
    ]
    longest = max(size or 0 for _, size in sizes)
    for title, size in sizes:
        written = "none" if size is None else format_bytes(size)
        bar = "#" * round(BAR * (size or 0) / max(1, longest))
        yield f"  {title}  {written:>10}  {bar}".rstrip()


def _loops(loops: Sequence[Loop]) -> Iterator[str]:
    tensors = max(1, SHOWN // max(1, len(loops)))
    for loop in loops[:SHOWN]:
        again = f", {loop.again:.0%} of the flops again" if loop.again >= 0.005 else ""
        yield f"  loop over an {loop}{again}; no longer whole:"
        yield from _tensors(loop.tensors[:tensors])
    yield from _more(loops, SHOWN, "  {} more loops: see report.loops")


def _rewrites(report: Report) -> Iterator[str]:
    rows = [
        (
            each.optimizer,
            f"saves {format_bytes(each.saved)}" if each.saved else "",
            each.source.short if each.source else "",
            each.what,
        )
        for each in report.rewrites[:SHOWN]
    ]
    yield from (shortened(f"    {line}") for line in columns(rows))
    yield from _more(report.rewrites, SHOWN, "    {} more: see report.rewrites")


def share(time: float) -> str:
    """With as many digits as an estimate has."""
    return f"{time:.1f}" if time >= 0.095 else "less than 0.1"


def _more(found: Sequence[object], shown: int, text: str) -> Iterator[str]:
    """A line on how many more there are than are shown, if there are."""
    if len(found) > shown:
        yield text.format(len(found) - shown)


def _tensors(tensors: Iterable[Tensor]) -> Iterator[str]:
    """A line each; those that are shown alike share one."""
    counted = Counter(map(_tensor, tensors))
    rows = [
        (f"{size:>10}", f"{count} x {type_}" if count > 1 else type_, where)
        for (size, type_, where, _), count in counted.items()
    ]
    for line, (*_, code) in zip(columns(rows), counted, strict=True):
        yield shortened(f"    {line}", code)


def _tensor(tensor: Tensor) -> tuple[str, str, str, str]:
    source = tensor.source
    if source is None:
        return format_bytes(tensor.bytes), tensor.type, f"({tensor.op})", ""
    library = f"  in {source.library}" if source.library else ""
    return format_bytes(tensor.bytes), tensor.type, f"{place(source)}{library}", source.code


def _blocker(blocker: Blocker) -> Iterator[str]:
    yield from _tensors([blocker.tensor])
    yield from wrapped(blocker.reason, 16)


def place(source: SourceLine) -> str:
    """`models/knn.py:12`: from the current folder if it is in there; never longer than PLACE."""
    path, here = Path(source.name), Path.cwd()
    parts = (path.relative_to(here) if path.is_relative_to(here) else path).parts
    found = f"{Path(*parts)}:{source.line}"
    while len(found) > PLACE and len(parts) > 1:
        parts = parts[1:]
        found = f".../{Path(*parts)}:{source.line}"
    return found


def wrapped(text: str, indent: int = 2) -> list[str]:
    """A text as lines that are indented; names and places stay whole."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
        max_lines=3,
        placeholder=" ...",
    )


def shortened(line: str, more: str = "") -> str:
    """A line with what there is room for of `more` after it; all of the line is kept if it can."""
    whole = f"{line}  {more}" if more else line
    return whole if len(whole) <= WIDTH else f"{whole[: WIDTH - 3].rstrip()}..."


def columns(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Rows of text whose columns line up; columns without any text are left out."""
    filled = [column for column in zip(*rows, strict=True) if any(column)]
    padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in filled]
    yield from ("  ".join(row).rstrip() for row in zip(*padded, strict=True))
