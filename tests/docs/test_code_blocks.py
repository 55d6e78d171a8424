"""The code of README and documentation runs, and prints what the pages say it prints."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import Page, names

FIGURE = re.compile(
    r"(?<=chunks of )[\d,]+|(?<=of 1 in )[\d,]+"
    r"|\d[\d,.]*(?= chunks| bytes| again| more|% of| of that of| [kMGT]B)"
)
"""What the planner and XLA decide: bytes, into how many chunks an axis is cut, what that costs."""

PLAN = re.compile(
    r"(?<=largest tensors left:\n)(?: {4,}.*\n)+|  #+$|^  \d+ left alone .*\n", re.MULTILINE
)
"""What follows from these: the chunks that are left in memory, the bars of a report, and how many
rules looked at the chunks."""

MOST_OFF = 2
"""By which factor a figure may differ. It does not have to be written anew with each change of the
planner; `python -m tests.docs.pages` does that."""


def words(text: str) -> str:
    return FIGURE.sub("(figure)", PLAN.sub("", text))


def figures(text: str) -> list[float]:
    return [float(figure.replace(",", "")) for figure in FIGURE.findall(PLAN.sub("", text))]


@pytest.mark.parametrize("name", names())
def test_the_code_of_a_page(name: str) -> None:
    for block, printed in Page(name).outputs():
        expected = block["content"]
        assert words(printed) == words(expected)
        for found, written in zip(figures(printed), figures(expected), strict=True):
            assert written / MOST_OFF <= found <= written * MOST_OFF, printed


@pytest.mark.parametrize("name", names())
def test_each_block_of_code_is_found(name: str) -> None:
    text = Page(name).text
    assert len(re.findall(r"^ +```", text, re.MULTILINE)) == 0, "indented blocks are not run"
    assert text.count("```") % 2 == 0
