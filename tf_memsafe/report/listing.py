"""The listing of a program as HTML: what belongs together folds, what changed is marked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from xml.etree.ElementTree import Element

from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.show import Line, show_lines
from tf_memsafe.report.tags import tag
from tf_memsafe.source import SourceLine

Link = Callable[[SourceLine], Element]
"""A link to a line of the user's code."""

FOLDED = "region"
"""Small computations inside an op, such as a reducer, are folded at first."""


def listing(
    graph: Graph,
    other: Graph | None,
    lines: Callable[[Node], SourceLine | None],
    link: Link,
) -> Element:
    """A graph's nodes, a line each; `changed` is the class of those that are not in the other."""
    shown = show_lines(graph, lambda _: None)
    known = {line.node for line in show_lines(other)} if other else {line.node for line in shown}
    return _Listing(shown, known, lines, link).block(0, len(shown))


class _Listing:
    def __init__(
        self,
        shown: Sequence[Line],
        known: Collection[Node | None],
        lines: Callable[[Node], SourceLine | None],
        link: Link,
    ) -> None:
        self._shown, self._known, self._lines, self._link = shown, known, lines, link

    def block(self, start: int, stop: int) -> Element:
        """Lines, each with the deeper ones that follow it folded below."""
        block, at = tag("div", class_="block"), start
        while at < stop:
            inner = at + 1
            while inner < stop and self._shown[inner].depth > self._shown[at].depth:
                inner += 1
            head = self._line(self._shown[at])
            block.append(self._fold(head, at, inner) if inner > at + 1 else head)
            at = inner
        return block

    def _fold(self, head: Element, at: int, stop: int) -> Element:
        fold = tag("details", tag("summary", head), self.block(at + 1, stop))
        if not self._shown[at].text.startswith(FOLDED):
            fold.set("open", "open")
        return fold

    def _line(self, line: Line) -> Element:
        text, _, size = line.text.partition("  # ")
        shown = tag("div", tag("code", text), class_="line")
        if line.node is None:
            return shown
        shown.append(tag("span", size, class_="size"))
        if line.node not in self._known:
            shown.set("class", "line changed")
        if source := self._lines(line.node):
            shown.append(self._link(source))
        return shown
