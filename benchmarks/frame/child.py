"""A contender's process, seen from outside: asked, watched, and ended when it takes too much."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import psutil

from .case import Case, Contender

ROOT = Path(__file__).parents[2]
POLL = 0.05
"""Seconds between two looks at what a process holds."""

START_TIMEOUT = 300
"""Seconds that importing the libraries, and making the call, may take."""

MOST_MEMORY = int(0.7 * psutil.virtual_memory().total)
"""Bytes that a process may hold: the machine must not run out of memory."""

LEAST_FREE = 1_000_000_000
"""Bytes that the machine is to have left: the contenders that wait hold memory, too."""

SLOWING = {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"}
"""Variables that make OpenBLAS use another processor's kernels."""


class StoppedError(Exception):
    """The contender has no figure; says why, in few words, and after how many seconds."""

    def __init__(self, why: str, seconds: float | None = None) -> None:
        super().__init__(why)
        self.seconds = seconds


class Child:
    """One contender at work on one case; `result` is to be in the folder where the data is."""

    def __init__(self, python: str, case: Case, contender: Contender, result: Path) -> None:
        self.contender = contender
        self._errors = result.with_suffix(".txt")
        self._process = _start(python, contender.peer, self._errors)
        self._watched = psutil.Process(self._process.pid)
        options = {**case.options, **contender.options}
        self._say(
            {
                "module": f"contenders.{contender.module}",
                "work": contender.work or case.work,
                "options": options,
                "limit": contender.limit,
                "folder": str(result.parent),
                "result": str(result),
            }
        )

    def hello(self) -> dict[str, str]:
        """Waits until the libraries are there; their versions."""
        answer = self._answer(START_TIMEOUT)
        if "missing" in answer:
            self.close()
            raise StoppedError(f"not installed ({answer['missing']})")
        versions: dict[str, str] = answer["versions"]
        return versions

    def ask(self, command: str, timeout: float) -> dict[str, Any]:
        """The answer to setup, first, run or report; raises `StoppedError` if there is none."""
        self._write(command)
        return self._answer(timeout)

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        # What it was asked before it died may still be on its way.
        with suppress(BrokenPipeError):
            _there(self._process.stdin).close()
        _there(self._process.stdout).close()

    def _say(self, job: dict[str, Any]) -> None:
        self._write(json.dumps(job))

    def _write(self, line: str) -> None:
        try:
            stream = _there(self._process.stdin)
            stream.write(line + "\n")
            stream.flush()
        except BrokenPipeError:
            return  # there will be no answer, which says why

    def _answer(self, timeout: float) -> dict[str, Any]:
        end, stream = time.monotonic() + timeout, _there(self._process.stdout)
        while not select.select([stream], [], [], POLL)[0]:
            if self._resident() > MOST_MEMORY:
                self.close()
                raise StoppedError(f"over {MOST_MEMORY / 1e9:.0f} GB")
            if psutil.virtual_memory().available < LEAST_FREE:
                held = self._resident()
                self.close()
                raise StoppedError(f"no memory left at {held / 1e9:.0f} GB")
            if time.monotonic() > end:
                self.close()
                raise StoppedError(f"over {timeout:.0f} s", timeout)
        line = stream.readline()
        if not line:
            raise StoppedError(self._why())
        found: dict[str, Any] = json.loads(line)
        return found

    def _resident(self) -> int:
        try:
            return int(self._watched.memory_info().rss)
        except psutil.NoSuchProcess:
            return 0

    def _why(self) -> str:
        """The last line that a process printed that ended by itself."""
        self.close()
        lines = self._errors.read_text(errors="replace").strip().splitlines()
        return f"failed: {lines[-1][:200]}" if lines else "failed"


def _start(python: str, peer: bool, errors: Path) -> subprocess.Popen[str]:
    paths = [ROOT / "benchmarks"] if peer else [ROOT / "benchmarks", ROOT]
    environment = {name: value for name, value in os.environ.items() if name not in SLOWING}
    environment |= {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_MEMSAFE_PROGRESS": "0",
        # KeOps compiles for any x86-64 unless it is told, and keeps what it compiled.
        "CXXFLAGS": "-march=native",
        "KEOPS_CACHE_FOLDER": str(ROOT / "build/keops"),
    }
    with errors.open("w") as stream:
        return subprocess.Popen(
            [python, "-m", "frame.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
            env=environment,
            cwd=errors.parent,
        )


def _there(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
