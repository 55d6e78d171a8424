"""A report as HTML: a fragment for notebooks, and a page of its own."""

from __future__ import annotations

import base64
import linecache
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from tf_memsafe.limits import format_bytes
from tf_memsafe.report import figure
from tf_memsafe.report.listing import listing
from tf_memsafe.report.naming import own_source
from tf_memsafe.report.tags import Child, html, table, tag
from tf_memsafe.report.text import SHOWN, share
from tf_memsafe.source import name_of_file

if TYPE_CHECKING:
    from tf_memsafe.report.content import Report, Tensor
    from tf_memsafe.report.program import Program
    from tf_memsafe.source import SourceLine

STYLE = Path(__file__).with_name("style.css").read_text()

AROUND = 3
"""How many lines of the user's code are shown before and after each that is meant."""


def fragment(report: Report, program: Program | None) -> str:
    """The report without listings, for a notebook."""
    body = tag("div", tag("style", STYLE), *_summary(report, program, _Sources()))
    body.set("class", "tf-memsafe")
    return html(body)


def page(report: Report, program: Program | None) -> str:
    """A self-contained page: the report, the listings of both programs and the user's lines."""
    sources = _Sources(linked=True)
    parts = [*_summary(report, program, sources), *_listings(report, program, sources)]
    body = tag("body", *parts, *sources.excerpts(), class_="tf-memsafe page")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{report.name} - tf_memsafe"),
        tag("style", STYLE),
    )
    return f"<!DOCTYPE html>\n{html(tag('html', head, body, lang='en'))}\n"


# --- the user's lines ---


class _Sources:
    """Makes places of the user's code; those that are linked are shown at the end of the page."""

    def __init__(self, linked: bool = False) -> None:
        self._linked = linked
        self._lines: dict[str, set[int]] = {}

    def place(self, source: SourceLine | None) -> Element | None:
        """A line, and after it the library's line that it led to."""
        if source is None:
            return None
        self._lines.setdefault(source.file, set()).add(source.line)
        link = tag("a", source.short, title=f"{source}  {source.code}")
        if self._linked:
            link.set("href", f"#{_anchor(source.file, source.line)}")
        library = tag("span", f" in {source.library}", class_="library")
        return tag("span", link, library if source.library else None, class_="place")

    def excerpts(self) -> Iterator[Element]:
        if self._lines:
            yield tag("h2", "Your code")
        for file, lines in self._lines.items():
            name = name_of_file(file)
            address = Path(name).as_uri() if Path(name).is_absolute() else ""
            yield tag("h3", tag("a", name, href=address) if address else name)
            yield tag("div", *_excerpt(file, lines), class_="code")


def _anchor(file: str, line: int) -> str:
    return f"{Path(file).name}-{line}"


def _excerpt(file: str, meant: set[int]) -> Iterator[Element]:
    around = {line + offset for line in meant for offset in range(-AROUND, AROUND + 1)}
    last = 0
    for line in sorted(around):
        text = linecache.getline(file, line)
        if text:
            if last and line > last + 1:
                yield tag("div", "...", class_="line")
            kind = "line meant" if line in meant else "line"
            number = tag("span", f"{line:>5}  ", class_="number")
            yield tag("div", number, text.rstrip(), class_=kind, id=_anchor(file, line))
            last = line


# --- what is shown first ---


def _summary(report: Report, program: Program | None, sources: _Sources) -> Iterator[Element]:
    verdict, kind = ("fits", "badge") if report.fits else ("does not fit", "badge bad")
    badge = tag("span", verdict, class_=kind)
    yield tag("h1", report.name, " ", badge)
    yield _sizes(report)
    if report.time is not None:
        yield tag("p", f"Estimated time: {share(report.time)} of that of the function as written.")
    if report.problem:
        yield tag("p", f"Left as it is: {report.problem}")
    yield from (tag("p", f"A program was dropped: {each}") for each in report.failures)
    if figure.can_plot(program):
        yield _picture(report, program)
    yield from _tables(report, sources)


def _sizes(report: Report) -> Element:
    sizes = [
        ("limit", "limit", report.memory_limit),
        ("peak before", "before", report.peak_before),
        ("peak after", "after", report.peak_after),
    ]
    longest = max(size or 0 for *_, size in sizes)
    rows = [
        tag(
            "tr",
            tag("td", title),
            tag("td", "none" if size is None else format_bytes(size), class_="number"),
            tag("td", _bar(kind, (size or 0) / max(1, longest)), class_="bars"),
        )
        for title, kind, size in sizes
    ]
    return tag("table", *rows, class_="sizes")


def _bar(kind: str, share: float) -> Element:
    return tag("div", "", class_=f"bar {kind}", style=f"width: {share:.2%}")


def _picture(report: Report, program: Program | None) -> Element:
    data = base64.b64encode(figure.image(figure.plot(report, program), "svg")).decode()
    text = (
        f"Memory in use: {format_bytes(report.peak_before)}, now {format_bytes(report.peak_after)}"
    )
    return tag("img", src=f"data:image/svg+xml;base64,{data}", alt=text)


def _tables(report: Report, sources: _Sources) -> Iterator[Element]:
    if report.loops:
        yield tag("h2", "Loops")
        header = ("axis", "length ", "chunk ", "trips ", "flops again ", "no longer whole")
        yield table(header, _loops(report, sources))
    yield from (tag("p", _sentence(str(each))) for each in report.recomputed)
    if report.rewrites:
        yield tag("h2", "Rewrites")
        titles = ("optimizer", "what", "where", "largest tensor before ", "now ")
        rewrites = list(_rewrites(report, sources))
        yield table(titles, rewrites[: 2 * SHOWN])
        if more := rewrites[2 * SHOWN :]:
            yield _folded(f"{len(more)} more, which save less", table(titles, more))
    if report.left:
        yield tag("h2", "Largest tensors left")
        yield _tensors(report.left, sources)
    yield tag("h2", "Largest tensors as written")
    yield _tensors(report.largest, sources)
    if report.blockers:
        yield tag("h2", "Could not be cut")
        rows = ([*_cells(each.tensor, sources), each.reason] for each in report.blockers)
        yield table(("bytes ", "tensor", "op", "where", "why"), rows)
    if report.refusals:
        yield _folded("Left alone by rewrites", table(*_refusals(report, sources)))


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _loops(report: Report, sources: _Sources) -> Iterator[list[Child]]:
    for loop in report.loops:
        first = loop.tensors[0].type if loop.tensors else ""
        axis = f"axis {loop.axis} of {first}" if loop.axis is not None else ""
        tensors = [
            tag("div", f"{format_bytes(t.bytes)}  {t.type}  ", sources.place(t.source))
            for t in loop.tensors
        ]
        numbers = (f"{number:,}" for number in (loop.axis_length, loop.chunk, loop.trips))
        yield [axis, *numbers, f"{loop.again:.0%}", tag("div", *tensors)]


def _rewrites(report: Report, sources: _Sources) -> Iterator[list[Child]]:
    for each in report.rewrites:
        sizes = (each.bytes_before, each.bytes_after) if each.saved else ()
        cells = [*map(format_bytes, sizes)] or ["", ""]
        yield [each.optimizer, tag("code", each.what), sources.place(each.source), *cells]


def _refusals(
    report: Report, sources: _Sources
) -> tuple[tuple[str, ...], Iterable[Iterable[Child]]]:
    rows = [
        [each.optimizer, tag("code", each.what), sources.place(each.source), each.reason]
        for each in report.refusals
    ]
    return ("optimizer", "not", "where", "why"), rows


def _tensors(tensors: Iterable[Tensor], sources: _Sources) -> Element:
    return table(("bytes ", "tensor", "op", "where"), (_cells(t, sources) for t in tensors))


def _cells(tensor: Tensor, sources: _Sources) -> list[Child]:
    place = sources.place(tensor.source)
    return [format_bytes(tensor.bytes), tag("code", tensor.type), tensor.op, place]


# --- listings ---


def _listings(report: Report, program: Program | None, sources: _Sources) -> Iterator[Element]:
    before = program.before.graph if program else None
    after = program.after.graph if program and program.after else None
    new = "The program as it is run" if report.fits else "The smallest program that was found"
    titles = ("The program as written", new)
    for title, graph, other in zip(titles, (before, after), (after, before), strict=True):
        if program and graph:
            found = listing(
                graph,
                other,
                lambda node: program.lines(own_source(node)),
                lambda source: sources.place(source) or tag("span"),
            )
            note = "Lines with a mark are in one of the programs only." if other else ""
            yield _folded(title, tag("p", note), tag("div", found, class_="listing"))
    if report.stablehlo:
        yield _folded("StableHLO", tag("pre", report.stablehlo))


def _folded(title: str, *content: Element) -> Element:
    return tag("details", tag("summary", tag("h2", title)), *content)
