"""The pictures are what their script draws."""

from __future__ import annotations

import runpy

import pytest

from tests.docs.pages import PAGES, ROOT

SCRIPT = runpy.run_path(str(ROOT / "docs" / "draw.py"))
FILES = {path.stem: path for path in (PAGES / "pictures").glob("*.svg")}


def test_each_picture_is_drawn() -> None:
    assert SCRIPT["PICTURES"].keys() == FILES.keys()


@pytest.mark.parametrize("name", FILES)
def test_a_picture_is_up_to_date(name: str) -> None:
    assert FILES[name].read_text() == SCRIPT["PICTURES"][name]().svg()


@pytest.mark.parametrize("name", FILES)
def test_a_picture_is_shown_somewhere(name: str) -> None:
    assert any(f"pictures/{name}.svg)" in page.read_text() for page in PAGES.rglob("*.md"))
