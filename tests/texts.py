"""Functions and tensors that the tests of error and warning texts share."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

COUNT = 300
MATRIX = 4 * COUNT**2
X = tf.constant(np.random.default_rng(0).normal(size=(COUNT, 3)), tf.float32)


def products(x: tf.Tensor) -> tf.Tensor:
    return x[:, None] * x[None]


def sums(x: tf.Tensor) -> tf.Tensor:
    return tf.exp(x @ tf.transpose(x)) @ x
