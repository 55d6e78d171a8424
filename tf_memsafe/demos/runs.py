"""A call of a function in a demo: what it gives, and what it takes without and under the limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import tensorflow as tf

import tf_memsafe
from tf_memsafe.demos.console import measure, progress
from tf_memsafe.limits import format_bytes

Result = TypeVar("Result")

HEADINGS = ("peak as written", "peak", "resident +", "seconds")


@dataclass(frozen=True)
class Run:
    """What a call took. All sizes are in bytes.

    peak_before, peak_after: as XLA counts them, as written and under the limit. resident: by how
    much memory grew over what the process held before. seconds: compilation included.
    """

    peak_before: int
    peak_after: int
    resident: int
    seconds: float

    def cells(self) -> list[str]:
        """What a table shows under `HEADINGS`."""
        sizes = map(format_bytes, (self.peak_before, self.peak_after, self.resident))
        return [*sizes, f"{self.seconds:.1f}"]

    def __str__(self) -> str:
        before, after, resident, seconds = self.cells()
        return f"peak {after} ({before} as written), resident memory + {resident}, {seconds} s"


def run(message: str, function: Any, *arguments: Any) -> tuple[Any, Run]:
    """Runs a tf.function, and shows `message` meanwhile; its result has NumPy's arrays.

    Raises:
        MemoryLimitError: if the call cannot be cut to the limit.

    Example: `(values, indices), took = run("Searching", knn, queries, points)`
    """

    def call() -> Any:
        return tf.nest.map_structure(lambda each: each.numpy(), function(*arguments))

    with progress(message):
        return measured(call, function, *arguments)


def measured(call: Callable[[], Result], function: Any, *arguments: Any) -> tuple[Result, Run]:
    """What `call` gives and takes; it calls `function` for the first time, or one that is like it.

    The peaks are those of `function(*arguments)`.
    """
    known = len(tf_memsafe.last_reports())
    result, cost = measure(call)
    # What was rewritten has a report; what fits as it is has none, but is soon explained.
    reports = tf_memsafe.last_reports()[known:] or [tf_memsafe.explain(function, *arguments)]
    report = max(reports, key=lambda report: report.peak_before)
    return result, Run(report.peak_before, report.peak_after, cost.resident, cost.seconds)
