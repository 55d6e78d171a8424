"""Tells on a terminal, or in a notebook, what a first call is doing that takes its time."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from pathlib import Path
from typing import Any, Protocol

from tf_memsafe.progress_line import AFTER, text_of

VARIABLE = "TF_MEMSAFE_PROGRESS"
"""The environment variable that switches the line off where it is 0."""


SILENT = {"compiling", "proving"}
"""Stages in which XLA compiles and lets no thread of the process run."""

SLOW_START = 0.1
"""Seconds from which on the work before a compile tells that this one may take seconds, too."""


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
    """A line below the cell, whose seconds the browser counts; it is empty in the end.

    While XLA compiles to measure a program, no thread of the process runs: what may take long is
    told before, and the browser shows it when it is time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told = ("", "", 0.0)
        self._line: Any = None
        self._timer: threading.Timer | None = None

    def tell(self, name: str, stage: str, since: float) -> None:
        self._told = name, stage, since
        passed = time.time() - since
        if self._line is not None or (stage in SILENT and passed >= SLOW_START):
            self._show()
        elif stage and self._timer is None:
            self._timer = threading.Timer(max(0, AFTER - passed), self._show)
            self._timer.daemon = True
            self._timer.start()
        if not stage and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _show(self) -> None:
        from IPython.display import display  # noqa: PLC0415  # there is a notebook, so it is

        with self._lock:
            name, stage, since = self._told
            passed = time.time() - since
            text = text_of(name, stage, passed) if stage else ""
            data = {"text/plain": text, "text/html": page_of(name, stage, passed) if stage else ""}
            if self._line is not None:
                self._line.update(data, raw=True)
            elif stage:
                self._line = display(data, raw=True, display_id=True)
            sys.stderr.flush()  # returns when what was shown before is on its way, too
            self._line = self._line if stage else None


def page_of(name: str, stage: str, seconds: float) -> str:
    """The line as HTML that counts on by itself, and is not seen before it is time."""
    line = escape(f"tf_memsafe: {name}: {stage} ... ")
    counted = f'<span class="seconds" style="animation-delay: {-seconds:.1f}s"></span>'
    seen = f'style="animation-delay: {max(0, AFTER - seconds):.1f}s"'
    return f'<div class="tf-memsafe-progress" {seen}><style>{COUNTING}</style>{line}{counted}</div>'


COUNTING = """
@property --tf-memsafe-seconds { syntax: "<integer>"; initial-value: 0; inherits: false; }
@keyframes tf-memsafe-count { to { --tf-memsafe-seconds: 86400; } }
@keyframes tf-memsafe-appear { from { visibility: hidden; } to { visibility: visible; } }
.tf-memsafe-progress { animation: tf-memsafe-appear 1ms both; }
.tf-memsafe-progress .seconds { animation: tf-memsafe-count 86400s linear both;
  counter-reset: seconds var(--tf-memsafe-seconds); }
.tf-memsafe-progress .seconds::after { content: counter(seconds) " s"; }
"""
"""How a browser counts seconds without a script."""
