"""HTML elements, written as the calls that make them; all text is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element, tostring

Child = Element | str | None


def tag(name: str, /, *children: Child, **attributes: str) -> Element:
    """An element with these children; None is left out. `class_` is the attribute `class`.

    Example: `html(tag("td", "a < b", class_="size"))` is '<td class="size">a &lt; b</td>'.
    """
    element = Element(name, {key.rstrip("_"): value for key, value in attributes.items()})
    for child in children:
        add(element, child)
    return element


def add(element: Element, child: Child) -> None:
    """Appends an element or text."""
    if isinstance(child, Element):
        element.append(child)
    elif child is not None and len(element):
        element[-1].tail = (element[-1].tail or "") + child
    elif child is not None:
        element.text = (element.text or "") + child


def table(header: Iterable[str], rows: Iterable[Iterable[Child]]) -> Element:
    """A table; in a column whose title ends in a blank, what is told are numbers."""
    titles = list(header)
    kinds = ["number" if title.endswith(" ") else "text" for title in titles]
    head = [tag("th", t.strip(), class_=k) for t, k in zip(titles, kinds, strict=True)]
    body = [
        tag("tr", *(tag("td", cell, class_=k) for cell, k in zip(row, kinds, strict=True)))
        for row in rows
    ]
    return tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body))


def html(element: Element) -> str:
    """The text of an element."""
    return tostring(element, encoding="unicode", method="html")
