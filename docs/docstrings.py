"""Has mkdocstrings show docstrings as they are meant: names as a list, examples as code."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection
from typing import Any

import griffe

EXAMPLE = re.compile(r"^Example:\n((?: {4}.*\n?|\n)+)", re.MULTILINE)


class HouseStyle(griffe.Extension):
    """Docstrings say `limit: what it is`, in a paragraph, for parameters and fields."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is None:
            return
        members = [*getattr(obj, "parameters", ()), *obj.attributes.values()]
        obj.docstring.value = readable(obj.docstring.value, {member.name for member in members})


def readable(docstring: str, names: Collection[str]) -> str:
    """The docstring with an item for each of the names, and with examples as blocks of code.

    Example: `readable("x: a number.", {"x"})` is "- `x`: a number.".
    """
    text = EXAMPLE.sub(_as_code, docstring)
    if not names:
        return text
    name = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    begin = re.compile(rf"(?:^|\.\s)((?:{name})(?:, (?:{name}))*): ")
    return "\n\n".join(_listed(paragraph, begin) for paragraph in text.split("\n\n"))


def _as_code(example: re.Match[str]) -> str:
    code = textwrap.dedent(example[1]).strip("\n")
    return f"Example:\n\n```python\n{code}\n```\n"


def _listed(paragraph: str, begin: re.Pattern[str]) -> str:
    """The paragraph as items, if names begin sentences of it."""
    first, *rest = begin.split(paragraph)
    if not rest:
        return paragraph
    items = [
        f"- {', '.join(f'`{name}`' for name in names.split(', '))}: {' '.join(text.split())}"
        for names, text in zip(rest[::2], rest[1::2], strict=True)
    ]
    ended = [item if item.endswith(".") else f"{item}." for item in items]
    return "\n".join([f"{first}.\n"] * bool(first.strip()) + ended)
