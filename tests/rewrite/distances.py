"""Functions of the distances of points, and points, for the tests of the distance optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tf_memsafe.hlo.order import topological
from tf_memsafe.rewrite.driver import Rewritten

Function = Callable[..., Any]


def naive(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum((x[:, None] - y[None]) ** 2, -1)


def scaled(x: tf.Tensor, y: tf.Tensor, scales: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.square((x[:, None] - y[None]) / scales), -1)


def squares(x: tf.Tensor) -> tf.Tensor:
    """The square of each point's distance to 0."""
    return tf.reduce_sum(x**2, -1)


def gradients(function: Function) -> Function:
    """The gradients, to each argument, of the sum of a Gaussian kernel of distances."""

    def compute(*arguments: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            value = tf.reduce_sum(tf.exp(-0.1 * function(*arguments)))
        return tape.gradient(value, arguments)

    return compute


def largest(result: Rewritten) -> int:
    """Elements of the largest tensor."""
    return max(type_.size for node in topological(result.graph.outputs) for type_ in node.results)


def points(*shape: int, offset: float = 0, dtype: str = "float32") -> np.ndarray:
    values = np.random.default_rng(sum(shape)).normal(size=shape) + offset
    return values.astype(dtype)


def exact(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The distances of these very numbers, in f64."""
    return ((x[:, None].astype(np.float64) - y[None].astype(np.float64)) ** 2).sum(-1)
