"""What the demos share: a progress line, a table, and the cost of a call."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO, TypeVar

from tf_memsafe.machine import (
    peak_resident_memory,
    reset_peak_resident_memory,
    resident_memory,
)

Result = TypeVar("Result")


@dataclass(frozen=True)
class Cost:
    """What a call took: wall-clock `seconds`, and the `resident` bytes by which memory grew."""

    seconds: float
    resident: int


def measure(call: Callable[[], Result]) -> tuple[Result, Cost]:
    """Runs `call`; its result, and what it took over what the process held before.

    Example: `result, cost = measure(lambda: knn(queries, points))`
    """
    reset_peak_resident_memory()
    before, start = resident_memory(), time.perf_counter()
    result = call()
    seconds = time.perf_counter() - start
    # The kernel rounds both figures, so that the peak may seem the smaller one.
    return result, Cost(seconds, max(0, peak_resident_memory() - before))


@contextmanager
def progress(message: str, stream: TextIO | None = None) -> Iterator[None]:
    """Shows `message` while the block runs, on a terminal with the seconds that have passed.

    `stream` is standard error if it is not given.
    """
    stream = stream or sys.stderr
    if not stream.isatty():
        print(f"{message} ...", file=stream, flush=True)
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_count, args=(message, stream, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _count(message: str, stream: TextIO, done: threading.Event) -> None:
    start = time.perf_counter()
    while True:
        seconds = time.perf_counter() - start
        print(f"\r{message} ... {seconds:.0f} s", end="", file=stream, flush=True)
        if done.wait(1.0):
            print(file=stream)
            return


def say(*lines: object) -> None:
    """Prints each of these on a line of its own, at once, also into a pipe."""
    print(*lines, sep="\n", flush=True)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as text, each column as wide as its widest cell.

    Example: `table([["limit", "1.00 GB"], ["seconds", "12"]])`
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)
