"""A report as plain text of one screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tf_memsafe.limits import format_bytes

if TYPE_CHECKING:
    from tf_memsafe.report.content import Loop, Report

BAR = 40
"""Characters of the longest bar."""

SHOWN = 5
"""How many of each kind are shown; the report has all."""


def lines(report: Report) -> Iterator[str]:
    """The lines of a report. They are ASCII but for the user's own names and code."""
    yield f"{report.name}: {'fits' if report.fits else 'does not fit'}"
    yield from _sizes(report)
    if report.time is not None:
        yield f"  time          {report.time:>8.2f} of that of the function as written (estimate)"
    if report.problem:
        yield f"  left as it is: {report.problem}"
    yield from (f"  a program was dropped: {failure}" for failure in report.failures)
    yield from _loops(report.loops)
    yield from (f"  {each}" for each in report.recomputed[:SHOWN])
    if report.rewrites:
        yield "  rewritten:"
        yield from _rewrites(report)
    if report.left:
        yield "  largest tensors left:"
        yield from (f"    {tensor}" for tensor in report.left[:SHOWN])
    elif not report.loops:
        yield "  largest tensors:"
        yield from (f"    {tensor}" for tensor in report.largest)
    if report.blockers:
        yield "  could not be cut:"
        yield from (f"    {blocker}" for blocker in report.blockers[:SHOWN])
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
    tensors = max(2, SHOWN // max(1, len(loops)))
    for loop in loops[:SHOWN]:
        again = f", {loop.again:.0%} of the flops again" if loop.again >= 0.005 else ""
        yield f"  loop over an {loop}{again}; no longer whole:"
        yield from (f"    {tensor}" for tensor in loop.tensors[:tensors])
    if len(loops) > SHOWN:
        yield f"  {len(loops) - SHOWN} more loops: see report.loops"


def _rewrites(report: Report) -> Iterator[str]:
    rows = [
        (
            each.optimizer,
            f"saves {format_bytes(each.saved)}" if each.saved else "",
            f"{Path(each.source.file).name}:{each.source.line}" if each.source else "",
            each.what,
        )
        for each in report.rewrites[:SHOWN]
    ]
    yield from (f"    {line}" for line in columns(rows))
    if len(report.rewrites) > SHOWN:
        yield f"    {len(report.rewrites) - SHOWN} more: see report.rewrites"


def columns(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Rows of text whose columns line up; columns without any text are left out."""
    filled = [column for column in zip(*rows, strict=True) if any(column)]
    padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in filled]
    yield from ("  ".join(row).rstrip() for row in zip(*padded, strict=True))
