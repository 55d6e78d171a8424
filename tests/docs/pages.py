"""The pages of the documentation as scripts: their code, and what they say that it prints.

Run as a program, it writes what the code prints now into the pages:
`python -m tests.docs.pages [NAME...]`.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import tf_memsafe
from tf_memsafe import MemorySafetyWarning, errors
from tf_memsafe.hlo import op

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "pages"

_BLOCK = re.compile(r"^```(?P<language>[a-z]+)[^\n]*\n(?P<content>.*?)^```$", re.DOTALL | re.M)

README_ARGUMENTS = """\
import tensorflow as tf
queries, points = tf.random.normal([50, 3]), tf.random.normal([200, 3])
"""
"""The README calls its function with tensors that it does not make."""


def names() -> list[str]:
    """The README, and each page that has code, by its path."""
    pages = [ROOT / "README.md", *sorted(PAGES.rglob("*.md"))]
    return [str(p.relative_to(ROOT)) for p in pages if "\n```python\n" in p.read_text()]


class Page:
    """A page whose Python blocks, one after the other, are one script.

    A `text` block holds what the code since the last such block prints. Files and lines in it are
    those of the script, which is called after the page.
    """

    def __init__(self, name: str) -> None:
        self.path = ROOT / name
        self.text = self.path.read_text()
        self._blocks = list(_BLOCK.finditer(self.text))

    def outputs(self) -> Iterator[tuple[re.Match[str], str]]:
        """Runs the page: each block of output that it has, and what is printed in its place."""
        with tempfile.TemporaryDirectory() as folder, _state_kept(), _working_in(folder):
            yield from self._run(Path(folder) / f"{self.path.stem}.py")

    def _run(self, script: Path) -> Iterator[tuple[re.Match[str], str]]:
        module = ModuleType("__main__")
        module.__file__ = str(script)
        printed, code = io.StringIO(), ""
        if self.path.name == "README.md":
            exec(README_ARGUMENTS, vars(module))
        for block in self._blocks:
            if block["language"] == "python":
                lines = code.count("\n")
                code += block["content"]
                script.write_text(code)
                compiled = compile("\n" * lines + block["content"], script, "exec")
                with redirect_stdout(printed), _warnings_printed():
                    exec(compiled, vars(module))
            elif block["language"] == "text":
                found = printed.getvalue().replace(f"{script.parent}/", "")
                yield block, "".join(f"{line.rstrip()}\n" for line in found.splitlines())
                printed.seek(0)
                printed.truncate()

    def update(self) -> None:
        """Writes what the code prints now into the page."""
        for block, printed in reversed(list(self.outputs())):
            start, end = block.span("content")
            self.text = self.text[:start] + printed + self.text[end:]
        self.path.write_text(self.text)


@contextmanager
def _state_kept() -> Iterator[None]:
    """Leaves no limit or option, no warning that was given, and no op that a page registered."""
    op.all_ops()  # which registers those that there are
    options = tf_memsafe.get_optimizer_options()
    with patch.dict(op._by_name), patch.dict(op._by_opcode), patch.object(errors, "_warned", set()):
        try:
            yield
        finally:
            tf_memsafe.set_memory_limit(None)
            tf_memsafe.set_optimizer_options(options)


@contextmanager
def _working_in(folder: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _warnings_printed() -> Iterator[None]:
    """Prints what tf_memsafe warns of, as Python does where nobody catches it."""

    def show(message: object, category: type[Warning], file: str, line: int, *_: object) -> None:
        print(f"{file}:{line}: {category.__name__}: {message}")

    with warnings.catch_warnings(), patch.object(warnings, "showwarning", show):
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", MemorySafetyWarning)
        yield


if __name__ == "__main__":
    for name in sys.argv[1:] or names():
        Page(name).update()
