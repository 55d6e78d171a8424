"""A function that fits its limit is not slower: the ratio to plain TensorFlow.

Nothing fires in the first and the last function; kNN is rewritten, because that saves time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from _timing import paired, wait

import tf_memsafe

ROUNDS = 31


@tf.function(jit_compile=True)
def knn(queries: tf.Tensor, points: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    distances = tf.reduce_sum((queries[:, None, :] - points[None, :, :]) ** 2, -1)
    return tf.math.top_k(-distances, 10)


@tf.function(jit_compile=True)
def attention(queries: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
    return tf.nn.softmax(tf.matmul(queries, keys, transpose_b=True)) @ keys


@tf.function(jit_compile=True)
def tiny(x: tf.Tensor) -> tf.Tensor:
    return x + 1.0


def under_a_limit(function: Callable[..., Any], *arguments: tf.Tensor) -> Callable[[], None]:
    """A call with the hook there. The limit is set and removed outside the function's own time."""

    def call() -> None:
        tf_memsafe.set_memory_limit("8GB")
        for _ in range(CALLS):
            wait(function(*arguments))
        tf_memsafe.set_memory_limit(None)

    return call


def plain(function: Callable[..., Any], *arguments: tf.Tensor) -> Callable[[], None]:
    def call() -> None:
        for _ in range(CALLS):
            wait(function(*arguments))

    return call


CALLS = 20


def main() -> None:
    queries, points = tf.random.normal([500, 8]), tf.random.normal([4000, 8])
    wide, keys = tf.random.normal([1000, 64]), tf.random.normal([4000, 64])
    assert not tf_memsafe.explain(attention, wide, keys, memory_limit="8GB").rewrites
    report = tf_memsafe.explain(knn, queries, points, memory_limit="8GB")
    assert report.peak_before <= 8e9, "this benchmark is about functions that fit"
    print(f"{'function':24}{'limit set':>12}{'plain':>12}{'ratio':>8}{'difference a call':>20}")
    for name, function, arguments in (
        ("attention 1,000 x 4,000", attention, (wide, keys)),
        ("knn 500 x 4,000", knn, (queries, points)),
        ("x + 1, one number", tiny, (tf.constant(1.0),)),
    ):
        times = paired(under_a_limit(function, *arguments), plain(function, *arguments), ROUNDS)
        each = (times.ours / CALLS, times.theirs / CALLS)
        print(
            f"{name:24}{each[0] * 1e3:>9.3f} ms{each[1] * 1e3:>9.3f} ms{times.ratio:>8.3f}"
            f"{(each[0] - each[1]) * 1e6:>17.1f} us"
        )


if __name__ == "__main__":
    main()
