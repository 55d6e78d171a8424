"""What cutting costs: each program cut to a limit, against itself uncut, in turns.

The whole table takes about 3 minutes on 2 idle cores. `--row NAME` runs the rows with NAME in
their name; `--tiny` runs small sizes, to see that it works.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
from _models import sgpr
from _timing import paired

import tf_memsafe

TINY = 20
"""By how much `--tiny` divides the number of rows of the data."""

LEAST_TINY_LIMIT = 100_000
"""Bytes: the arguments and results of the smallest of the tiny sizes, and one step."""

Function = Callable[..., Any]


class Row(NamedTuple):
    """A program to measure.

    make: the function and its arguments; takes what to divide sizes by. limit: in bytes, for the
    full size; None for a tenth of the uncut peak. rounds: how often both are timed.
    """

    name: str
    make: Callable[[int], tuple[Function, tuple[tf.Tensor, ...]]]
    limit: int | None = None
    rounds: int = 5


def normal(*shape: int) -> tf.Tensor:
    return tf.random.stateless_normal(shape, (1, 2))


def attention(queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    scores = tf.matmul(queries, keys, transpose_b=True) / queries.shape[-1] ** 0.5
    return tf.nn.softmax(scores) @ values


def kernel_times_vector(x: tf.Tensor, scales: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.exp(-tf.reduce_sum(((x[:, None] - x[None]) / scales) ** 2, -1)) @ v


def with_gradient(function: Callable[..., tf.Tensor]) -> Function:
    def value_and_gradient(*arguments: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            value = tf.reduce_sum(function(*arguments) ** 2)
        return value, tape.gradient(value, arguments)

    return value_and_gradient


def heads(divisor: int) -> tuple[tf.Tensor, ...]:
    return (normal(8, 4000 // divisor, 64),) * 3


def kernel_arguments(width: int, divisor: int) -> tuple[tf.Tensor, ...]:
    return normal(8000 // divisor, width), tf.ones([width]), normal(8000 // divisor, 1)


ROWS = (
    Row("attention, T=4000", lambda d: (attention, heads(d))),
    Row("attention gradient", lambda d: (with_gradient(attention), heads(d))),
    Row("K v, N=8000, D=3", lambda d: (kernel_times_vector, kernel_arguments(3, d))),
    Row("K v, N=8000, D=20", lambda d: (kernel_times_vector, kernel_arguments(20, d))),
    Row(
        "K v gradient, D=3", lambda d: (with_gradient(kernel_times_vector), kernel_arguments(3, d))
    ),
    Row(
        "K v gradient, D=20",
        lambda d: (with_gradient(kernel_times_vector), kernel_arguments(20, d)),
    ),
    Row("SGPR gradient, N=100k", lambda d: (sgpr(100_000 // d, 500 // d), ()), 200_000_000, 3),
    Row("SGPR gradient, 1 GB", lambda d: (sgpr(100_000 // d, 500 // d), ()), 1_000_000_000, 3),
)


def measure(row: Row, divisor: int) -> str:
    """A line of the table: both peaks, both times, their ratio and the report's estimate of it."""
    function, arguments = row.make(divisor)
    plain, cut = (tf.function(function, jit_compile=True) for _ in range(2))
    before = tf_memsafe.explain(plain, *arguments).peak_before
    limit = row.limit or before // 10
    if divisor > 1:
        limit = max(before // 2, LEAST_TINY_LIMIT)
    report = tf_memsafe.explain(plain, *arguments, memory_limit=limit)

    def ours() -> Any:
        with tf_memsafe.memory_limit(limit):
            return cut(*arguments)

    times = paired(ours, lambda: plain(*arguments), row.rounds)
    estimate = "-" if report.time is None else f"{report.time:.2f}"
    return (
        f"{row.name:22}{before / 1e6:>10.1f}{report.peak_after / 1e6:>8.1f}"
        f"{len(report.loops):>7}{times.theirs:>10.3f}{times.ours:>9.3f}{times.ratio:>8.2f}{estimate:>10}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--row", action="append", metavar="NAME", help="run the rows named so")
    parser.add_argument("--tiny", action="store_true", help="small sizes, whose times mean nothing")
    options = parser.parse_args()
    sizes, times = f"{'MB before':>10}{'after':>8}{'loops':>7}", f"{'s before':>10}{'after':>9}"
    print(f"{'':22}{sizes}{times}{'ratio':>8}{'estimate':>10}")
    for row in ROWS:
        if not options.row or any(name in row.name for name in options.row):
            print(measure(row, TINY if options.tiny else 1), flush=True)


if __name__ == "__main__":
    main()
