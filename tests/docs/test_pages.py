"""The pages name what there is, and all of it."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

import tf_memsafe
from tests.docs.pages import PAGES, ROOT
from tf_memsafe.command.arguments import parse
from tf_memsafe.rewrite.pipeline import NAMES

ALL = [str(path.relative_to(PAGES)) for path in sorted(PAGES.rglob("*.md"))]
FILE = re.compile(r"`((?:tf_memsafe|tests|benchmarks|docs)/[\w/.]+)`")


COMMAND = re.compile(r"^python -m (\S+) *(.*)$", re.MULTILINE)
COMMANDS = sorted(
    {command for page in ALL for command in COMMAND.findall((PAGES / page).read_text())}
)


def text(page: str) -> str:
    return (PAGES / page).read_text()


def test_every_public_name_is_in_the_reference() -> None:
    listed = {line.split(".")[-1] for line in text("api.md").splitlines() if line[:4] == "::: "}
    assert {*tf_memsafe.__all__} <= listed


def test_every_optimizer_is_described() -> None:
    assert [name for name in NAMES if f"| `{name}` |" not in text("options.md")] == []


def test_the_supported_range_of_tensorflow_is_that_of_the_readme() -> None:
    (supported,) = re.findall(r"`(tensorflow>=[^`]+)`", text("install.md"))
    assert f"`{supported}`" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(("module", "arguments"), COMMANDS, ids=map(" ".join, COMMANDS))
def test_each_command_is_one(module: str, arguments: str) -> None:
    if module == "tf_memsafe":
        parse(arguments.split())
    assert find_spec(module) is not None


def test_each_demo_exists() -> None:
    names = re.findall(
        r"^\| `(\w+)` \|", text("commands.md").partition("## Demos")[2], re.MULTILINE
    )
    assert names
    assert [name for name in names if find_spec(f"tf_memsafe.demos.{name}") is None] == []


@pytest.mark.parametrize("page", ALL)
def test_every_page_is_in_the_navigation(page: str) -> None:
    assert f": {page}\n" in (ROOT / "docs" / "mkdocs.yml").read_text()


@pytest.mark.parametrize("page", ALL)
def test_the_files_that_a_page_names_exist(page: str) -> None:
    assert [name for name in FILE.findall(text(page)) if not (ROOT / name).exists()] == []
