"""What this machine can do at best: products of large matrices, exponentials, memory's bandwidth.

Each is the best of several runs of a program that XLA compiled, on all cores.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

REPEATS = 30
"""Over a minute or two: others may use the processor for a while."""
TIMES = 50
"""Exponentials of each element, one after the other: more than what it takes to start a program."""

PRODUCT, CACHED, UNCACHED = 4_000, 1_000_000, 50_000_000
"""Rows of a matrix; elements that stay in the cache, and that do not."""


def best(function: Callable[..., Any], *arguments: tf.Tensor) -> float:
    """Seconds of the fastest call."""
    compiled = tf.function(function, jit_compile=True)
    compiled(*arguments)
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        compiled(*arguments)
        times.append(time.perf_counter() - start)
    return min(times)


def exponentials(x: tf.Tensor) -> tf.Tensor:
    """exp(-exp(-... x)): numbers between 0 and 1, which no kernel finds easier than others."""
    start = (tf.constant(0), x)
    return tf.while_loop(lambda i, _: i < TIMES, lambda i, y: (i + 1, tf.exp(-y)), start)[1]


def measure(smaller: int) -> dict[str, float]:
    """Per second: floating-point operations, exponentials and bytes."""
    found = {}
    for dtype in (tf.float32, tf.float64):
        n = PRODUCT // smaller
        square = tf.random.normal([n, n], dtype=dtype)
        found[f"flops {dtype.name}"] = 2.0 * n**3 / best(tf.matmul, square, square)
        x = tf.random.normal([CACHED // smaller], dtype=dtype)
        found[f"exponentials {dtype.name}"] = TIMES * int(tf.size(x)) / best(exponentials, x)
    a, b = (tf.random.normal([UNCACHED // smaller]) for _ in range(2))
    found["bytes"] = 3 * 4.0 * int(tf.size(a)) / best(lambda x, y: x + 3.0 * y, a, b)
    return found


def text(found: dict[str, float]) -> str:
    lines = []
    for name, value in found.items():
        unit = {"flops": "GFLOP/s", "exponentials": "G/s", "bytes": "GB/s"}[name.split()[0]]
        what = name.replace("flops", "matrix product,").replace("bytes", "triad")
        lines.append(f"{what:28}{value / 1e9:>10.1f} {unit}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=["full", "quick", "tiny"], default="full")
    parser.add_argument("--json", type=Path, metavar="FILE", help="what RESULTS.md is made from")
    options = parser.parse_args()
    found = measure({"full": 1, "quick": 2, "tiny": 20}[options.size])
    print(text(found))
    if options.json:
        results = {"claim": __doc__, "text": text(found), "numbers": found}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
