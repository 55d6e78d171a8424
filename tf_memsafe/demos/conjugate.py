"""Conjugate gradients, as a textbook writes them: several demos solve by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def conjugate_gradients(
    product: Callable[[tf.Tensor], tf.Tensor], targets: tf.Tensor, steps: int, tolerance: float
) -> Any:
    """Solves A w = targets for a positive definite A, each column of targets [n, k] by itself.

    product: gives A v for v [n, k]. steps: at most. tolerance: of the residuals, over the targets.
    Returns w [n, k] and how many steps it took.

    Example: `weights, steps = conjugate_gradients(lambda v: tf.matmul(a, v), y, 100, 1e-6)`
    """

    def sizes(v: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(v**2, 0)

    goal = tolerance**2 * sizes(targets)

    def unfinished(step: Any, weights: Any, residual: Any, direction: Any) -> Any:
        return (step < steps) & tf.reduce_any(sizes(residual) > goal)

    def improve(step: Any, weights: Any, residual: Any, direction: Any) -> Any:
        size = sizes(residual)
        image = product(direction)
        length = tf.math.divide_no_nan(size, tf.reduce_sum(direction * image, 0))
        weights, residual = weights + length * direction, residual - length * image
        turn = tf.math.divide_no_nan(sizes(residual), size)
        return step + 1, weights, residual, residual + turn * direction

    start = (0, tf.zeros_like(targets), targets, targets)
    step, weights, *_ = tf.while_loop(unfinished, improve, start)
    return weights, step
