"""What cutting costs: each program cut to a limit, against itself uncut, in turns."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
from _models import sgpr
from _timing import paired

import tf_memsafe

ROUNDS = 5


class Work(NamedTuple):
    """A function and its arguments. limit: in bytes; None for a tenth of the uncut peak."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[tf.Tensor, ...] = ()
    limit: int | None = None


def normal(*shape: int) -> tf.Tensor:
    return tf.random.stateless_normal(shape, (1, 2))


def attention(queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    scores = tf.matmul(queries, keys, transpose_b=True) / queries.shape[-1] ** 0.5
    return tf.nn.softmax(scores) @ values


def kernel_times_vector(x: tf.Tensor, scales: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.exp(-tf.reduce_sum(((x[:, None] - x[None]) / scales) ** 2, -1)) @ v


def with_gradient(function: Callable[..., tf.Tensor]) -> Callable[..., Any]:
    def value_and_gradient(*arguments: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            value = tf.reduce_sum(function(*arguments) ** 2)
        return value, tape.gradient(value, arguments)

    return value_and_gradient


def kernel_arguments(width: int) -> tuple[tf.Tensor, ...]:
    return normal(8000, width), tf.ones([width]), normal(8000, 1)


HEADS = (normal(8, 4000, 64),) * 3
WORKS = (
    Work("attention, T=4000", attention, HEADS),
    Work("attention gradient", with_gradient(attention), HEADS),
    Work("K v, N=8000, D=3", kernel_times_vector, kernel_arguments(3)),
    Work("K v, N=8000, D=20", kernel_times_vector, kernel_arguments(20)),
    Work("K v gradient, D=3", with_gradient(kernel_times_vector), kernel_arguments(3)),
    Work("K v gradient, D=20", with_gradient(kernel_times_vector), kernel_arguments(20)),
    Work("SGPR gradient, N=100k", sgpr(100_000, 500), limit=200_000_000),
)


def measure(work: Work) -> str:
    """A line of the table: both peaks, both times and their ratio."""
    plain, cut = (tf.function(work.function, jit_compile=True) for _ in range(2))
    before = tf_memsafe.explain(plain, *work.arguments).peak_before
    limit = work.limit or before // 10
    report = tf_memsafe.explain(plain, *work.arguments, memory_limit=limit)

    def ours() -> Any:
        with tf_memsafe.memory_limit(limit):
            return cut(*work.arguments)

    times = paired(ours, lambda: plain(*work.arguments), ROUNDS)
    return (
        f"{work.name:22}{before / 1e6:>10.0f}{report.peak_after / 1e6:>8.0f}"
        f"{len(report.loops):>7}{times.theirs:>10.3f}{times.ours:>9.3f}{times.ratio:>8.2f}"
    )


def main() -> None:
    names = sys.argv[1:]
    sizes, times = f"{'MB before':>10}{'after':>8}{'loops':>7}", f"{'s before':>10}{'after':>9}"
    print(f"{'':22}{sizes}{times}{'ratio':>8}")
    for work in WORKS:
        if not names or any(name in work.name for name in names):
            print(measure(work), flush=True)


if __name__ == "__main__":
    main()
