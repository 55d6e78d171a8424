"""The README says what the project's files say."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

import pytest

import tf_memsafe

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()

CONFIGURATION = ConfigParser()
CONFIGURATION.read(ROOT / "setup.cfg")


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\bmake ([a-z-]+)`", README))))
def test_each_make_command_of_the_readme_exists(target: str) -> None:
    assert re.search(rf"^{target}:.*## ", MAKEFILE, re.MULTILINE)


def test_the_readme_has_the_two_commands() -> None:
    assert {"demo", "test"} <= set(re.findall(r"\bmake ([a-z-]+)`", README))


def test_the_readme_states_the_supported_range_of_tensorflow() -> None:
    requirements = CONFIGURATION["options"]["install_requires"].split()
    (supported,) = (name for name in requirements if name.startswith("tensorflow"))
    assert f"`{supported}`" in README


def test_the_readme_states_the_supported_python() -> None:
    oldest = CONFIGURATION["options"]["python_requires"].removeprefix(">=")
    assert f"Python {oldest} or later" in README


def test_the_readme_names_every_public_name() -> None:
    assert [name for name in tf_memsafe.__all__ if f"`{name}" not in README] == []


def test_each_extra_that_the_makefile_installs_exists() -> None:
    (stamps,) = re.findall(r"^((?:\$\(VENV\)/[a-z]+ ?)+): \$\(VENV\)/%:", MAKEFILE, re.MULTILINE)
    extras = re.findall(r"/([a-z]+)", stamps)
    assert extras
    assert set(extras) <= set(CONFIGURATION["options.extras_require"])
