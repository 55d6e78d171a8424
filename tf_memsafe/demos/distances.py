"""Distances of each of x [n, d] to each of y [m, d], as [n, m], written as beginners write them."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


def squared(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Squared Euclidean distances, from the differences."""
    return tf.reduce_sum((x[:, None, :] - y[None, :, :]) ** 2, -1)


def squared_by_dot(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Squared Euclidean distances, from the products."""
    products = tf.matmul(x, y, transpose_b=True)
    return tf.reduce_sum(x**2, -1)[:, None] - 2 * products + tf.reduce_sum(y**2, -1)[None, :]


def absolute(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Manhattan distances."""
    return tf.reduce_sum(tf.abs(x[:, None, :] - y[None, :, :]), -1)


def cosine(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """One minus the cosine of the angle."""
    x, y = (tf.math.l2_normalize(each, -1) for each in (x, y))
    return 1 - tf.matmul(x, y, transpose_b=True)


FORMS: dict[str, Callable[[tf.Tensor, tf.Tensor], tf.Tensor]] = {
    "l2": squared,
    "dot": squared_by_dot,
    "l1": absolute,
    "cosine": cosine,
}
"""Distances by the names that the demos know them by."""
