"""One contender in a process of its own: `python -m frame.worker`, told what to do line by line.

It imports the contender's libraries and NumPy, nothing else, and answers each line of JSON on
standard input with a line on standard output.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

TURN = 0.2
"""Seconds: shorter calls are repeated for so long, and their mean is taken."""

LIBRARIES = {
    "faiss-cpu",
    "gpflow",
    "gpytorch",
    "jax",
    "numpy",
    "opt_einsum",
    "pykeops",
    "scikit-learn",
    "tensorflow",
    "torch",
}


def resident(field: str = "VmRSS") -> int:
    """Bytes that the process holds (VmRSS), or held at most (VmHWM); 0 where /proc is not."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    values = [line.split() for line in lines if line.startswith(field)]
    return int(values[0][1]) * 1024 if values else 0


def forget_peak() -> None:
    """From here on, the peak is of what happens from here on."""
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")


def give_back() -> None:
    """Gives the memory back that was freed, such as the compiler's."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def versions() -> dict[str, str]:
    """Of the libraries in this environment."""
    found = {}
    for name in sorted(LIBRARIES):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def leaves(result: Any) -> Iterator[Any]:
    """The tensors of a result, in order."""
    if isinstance(result, (list, tuple)):
        for each in result:
            yield from leaves(each)
    else:
        yield np.asarray(result)


class Worker:
    """The contender's call, and what the process held before it was there.

    A contender's module may have a `start`, which brings up its library's runtime and compiler:
    what they hold is not the work's.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        module = importlib.import_module(job["module"])
        self.function = getattr(module, job["work"])
        self.call: Callable[[], Any] | None = None
        self.before = 0
        if job["limit"]:
            _set_limit(job["limit"])
        if hasattr(module, "start"):
            module.start()

    def setup(self) -> dict[str, Any]:
        """Makes the call: all that a user would do once."""
        folder = Path(self.job["folder"])
        data = {path.stem: np.load(path) for path in sorted(folder.glob("*.npy"))}
        give_back()
        forget_peak()
        self.before = resident()
        self.call = self.function(data, **self.job["options"])
        return {}

    def first(self) -> dict[str, Any]:
        """Seconds of the first call, which may compile, and the bytes by which the process grew.

        Saves what the call returns.
        """
        assert self.call is not None
        start = time.perf_counter()
        result = self.call()
        seconds = time.perf_counter() - start
        growth = max(0, resident("VmHWM") - self.before)
        np.savez(self.job["result"], *leaves(result))
        del result
        give_back()
        return {"seconds": seconds, "resident": growth}

    def run(self) -> dict[str, Any]:
        """Seconds of a call, and the bytes by which the process has grown at most."""
        assert self.call is not None
        forget_peak()
        calls, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < TURN or not calls:
            self.call()
            calls += 1
        return {
            "seconds": elapsed / calls,
            "resident": max(0, resident("VmHWM") - self.before),
        }

    def report(self) -> dict[str, Any]:
        """tf_memsafe's own word on what it did.

        It compiles the function as written to know its peak, which no call does.
        """
        found = _reported() if self.job["limit"] else {}
        give_back()
        return found


def _set_limit(limit: int) -> None:
    import tf_memsafe  # noqa: PLC0415, the peers' environment does not have it

    tf_memsafe.set_memory_limit(limit)


def _reported() -> dict[str, Any]:
    import tf_memsafe  # noqa: PLC0415

    reports = tf_memsafe.last_reports()
    if not reports:
        return {}
    return {
        "proven": max(report.peak_after for report in reports),
        "whole": max(report.peak_before for report in reports),
        "loops": sum(len(report.loops) for report in reports),
    }


def main() -> None:
    # What libraries print is not an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(found: dict[str, Any]) -> None:
        print(json.dumps(found), file=answers, flush=True)

    try:
        worker = Worker(json.loads(sys.stdin.readline()))
    except ModuleNotFoundError as error:
        answer({"missing": str(error)})
        return
    answer({"versions": versions()})
    for line in sys.stdin:
        answer(getattr(worker, line.strip())())


if __name__ == "__main__":
    main()
