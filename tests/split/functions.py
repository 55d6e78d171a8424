"""TensorFlow functions that people write, and whose plans the tests look at."""

from __future__ import annotations

from collections.abc import Callable

import gpflow
import numpy as np
import tensorflow as tf

from tests.split.planning import floats, graph_for
from tf_memsafe.hlo.node import Graph

HEADS = (floats(4, 500, 16),) * 3


def attention(queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    scores = tf.matmul(queries, keys, transpose_b=True) / 4.0
    return tf.nn.softmax(scores) @ values


def distances(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum((x[:, None] - y[None]) ** 2, -1)


def nearest(queries: tf.Tensor, points: tf.Tensor) -> tf.Tensor:
    return tf.math.top_k(-distances(queries, points), 10)


def kernel_times_vector(x: tf.Tensor, scales: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.exp(-distances(x / scales, x / scales)) @ v


def gradient_of(function: Callable[..., tf.Tensor]) -> Callable[..., list[tf.Tensor]]:
    """A function of the same arguments that returns the gradients of the sum of squares."""

    def gradients(*arguments: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            loss = tf.reduce_sum(tf.square(function(*arguments)))
        return tape.gradient(loss, arguments)

    return gradients


def sgpr_gradient(points: int, inducing: int) -> Graph:
    """The loss of GPflow's SGPR on `points` rows, and its gradients."""
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(points, 3))
    targets = np.sin(inputs[:, :1]) + 0.1 * generator.normal(size=(points, 1))
    kernel = gpflow.kernels.SquaredExponential(lengthscales=[1.0, 1.0, 1.0])
    model = gpflow.models.SGPR((inputs, targets), kernel, inputs[:inducing].copy())

    def loss_and_gradient() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        return [loss, *tape.gradient(loss, model.trainable_variables)]

    return graph_for(loss_and_gradient)
