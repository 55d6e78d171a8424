"""Tells on a terminal, or in a notebook, what a first call is doing that takes its time."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol

from tf_memsafe.progress_line import AFTER, text_of

VARIABLE = "TF_MEMSAFE_PROGRESS"
"""The environment variable that switches the line off where it is 0."""


class _Shown(Protocol):
    """Where the line is shown."""

    def tell(self, name: str, stage: str, since: float) -> None:
        """What is going on with a function since this time; nothing if `stage` is empty."""


class _Work:
    """A first call: its function's name, what it is doing, innermost last, and since when."""

    def __init__(self, name: str, shown: _Shown) -> None:
        self._name, self._shown, self._since = name, shown, time.time()
        self.stages: list[str] = []

    def tell(self) -> None:
        self._shown.tell(self._name, self.stages[-1] if self.stages else "", self._since)


_work: ContextVar[_Work | None] = ContextVar("tf_memsafe_progress", default=None)


@contextmanager
def progress(name: str) -> Iterator[None]:
    """Shows what the block does, by its stages, if it takes long and standard error is a terminal.

    name: of the function that is worked on.
    """
    shown = _display()
    if shown is None:
        yield
        return
    work = _Work(name, shown)
    token = _work.set(work)
    try:
        yield
    finally:
        _work.reset(token)
        work.tell()


@contextmanager
def stage(name: str) -> Iterator[None]:
    """What the block, or the function that it decorates, does is called this.

    Example: `with stage("planning"): ...`
    """
    work = _work.get()
    if work is None:
        yield
        return
    work.stages.append(name)
    work.tell()
    try:
        yield
    finally:
        work.stages.pop()
        if work.stages:
            work.tell()


def _display() -> _Shown | None:
    if os.environ.get(VARIABLE) == "0":
        return None
    if sys.stderr is not None and sys.stderr.isatty():
        return _terminal
    return _Notebook() if _in_notebook() else None


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


class _Terminal:
    """A line that a process of its own draws: while XLA compiles, no thread of this one runs."""

    _process: subprocess.Popen[bytes] | None = None

    def tell(self, name: str, stage: str, since: float) -> None:
        if self._process is None and stage:
            self._process = _start_line()
        if self._process is None or self._process.stdin is None:
            return
        try:
            self._process.stdin.write(f"{name}\t{stage}\t{since}\n".encode())
        except OSError:  # the line's process was ended by somebody: the next stage starts another
            self._process = None


def _start_line() -> subprocess.Popen[bytes]:
    script = str(Path(__file__).with_name("progress_line.py"))
    command = [sys.executable, "-I", "-S", script]
    process = subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, stderr=sys.stderr)
    atexit.register(_end_line, process)
    return process


def _end_line(process: subprocess.Popen[bytes]) -> None:
    """Ends the process with its input; or by force, if a fork of this one holds that open."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(timeout=1)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


_terminal = _Terminal()


class _Notebook:
    """A line of text, written anew at each stage: while XLA compiles, no kernel can show any."""

    _length = 0

    def tell(self, name: str, stage: str, since: float) -> None:
        passed = time.time() - since
        if stage and passed >= AFTER:
            self._write(text_of(name, stage, passed))
        elif not stage and self._length:
            self._write("")

    def _write(self, text: str) -> None:
        padded = text.ljust(self._length)
        sys.stderr.write(f"\r{padded}" if text else f"\r{padded}\r")
        sys.stderr.flush()
        self._length = len(text)
