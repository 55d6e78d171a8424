"""The computations of shared/CASES.md, each written naively, as those did who reported it."""

from __future__ import annotations

import gpflow
import numpy as np
import tensorflow as tf


def _model() -> gpflow.models.SGPR:
    """An SGPR with 50 inducing points; `sparse_gp` gives it its data."""
    inputs = np.random.default_rng(0).normal(size=(50, 9))
    kernel = gpflow.kernels.SquaredExponential(lengthscales=[1.0] * 9) + gpflow.kernels.White()
    return gpflow.models.SGPR((inputs, inputs[:, :1]), kernel, inputs)


MODEL = _model()


def sparse_gp(x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
    """Case 1: the loss of an SGPR and its gradients, as in a step of training."""
    MODEL.data = (x, y)
    with tf.GradientTape() as tape:
        loss = MODEL.training_loss()
    gradients = tape.gradient(loss, MODEL.trainable_variables)
    return [loss, *map(tf.convert_to_tensor, gradients)]


def squared_distances(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """The beginner's spelling: a broadcast difference, squared and summed."""
    return tf.reduce_sum((x[..., :, None, :] - y[..., None, :, :]) ** 2, -1)


def dot_distances(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """The other spelling: |x|^2 - 2xy^T + |y|^2."""
    products = tf.matmul(x, y, transpose_b=True)
    return (
        tf.reduce_sum(x**2, -1)[..., :, None] - 2 * products + tf.reduce_sum(y**2, -1)[..., None, :]
    )


def matern_predictive_variance(test: tf.Tensor, train: tf.Tensor) -> tf.Tensor:
    """Case 2: diag_part of a large product of three matrices."""

    def kernel(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        r = tf.sqrt(5 * squared_distances(x, y) + 1e-12)
        return (1 + r + r**2 / 3) * tf.exp(-r)

    inverse = tf.linalg.inv(kernel(train, train) + 0.1 * tf.eye(train.shape[0], dtype=train.dtype))
    cross = kernel(test, train)
    return 1 - tf.linalg.diag_part(cross @ inverse @ tf.transpose(cross))


def cloud_neighbours(cloud: tf.Tensor) -> tf.Tensor:
    """Case 3."""
    return tf.math.top_k(-squared_distances(cloud, cloud), 16)


def nearest(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Case 4."""
    return tf.argmin(dot_distances(x, y), 1)


def batched_neighbours(x: tf.Tensor) -> tf.Tensor:
    """Case 5."""
    return tf.math.top_k(-dot_distances(x, x), 20)


def discrepancy(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Case 6: the maximum mean discrepancy with a Gaussian kernel."""

    def mean_kernel(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.exp(-0.01 * squared_distances(a, b)))

    return mean_kernel(x, x) + mean_kernel(y, y) - 2 * mean_kernel(x, y)


def attention(queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Case 8."""
    scores = tf.matmul(queries, keys, transpose_b=True) / queries.shape[-1] ** 0.5
    return tf.nn.softmax(scores) @ values


def causal_attention(queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Case 7."""
    scores = tf.matmul(queries, keys, transpose_b=True) / queries.shape[-1] ** 0.5
    length = queries.shape[-2]
    mask = tf.linalg.band_part(tf.ones([length, length]), -1, 0)
    return tf.nn.softmax(tf.where(mask > 0, scores, -1e9)) @ values


def products_in_a_loop(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Case 9: a batched product inside a while_loop, reduced over the last axis."""

    def body(step: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return step + 1, total + tf.reduce_max(tf.matmul(x, y), -1)

    start = (0, tf.zeros(x.shape[:2]))
    return tf.while_loop(lambda step, _: step < 3, body, start)[1]


def product_by_broadcast(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Case 10."""
    return tf.reduce_sum(x[:, :, :, None] * y[:, None, :, :], 2)


def tiled_distances(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Case 11."""
    left = tf.tile(x[:, None], [1, y.shape[0], 1])
    right = tf.tile(y[None], [x.shape[0], 1, 1])
    return tf.reduce_sum(tf.square(left - right), 2)


def chain(a: tf.Tensor, b: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    """Case 12."""
    return (a @ b) @ v


def folded_tiles(v: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Case 13: what each step multiplies v by is 10,000 times as large as what it reads."""

    def add(total: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
        return total + (v * tf.tile(row, [10_000]))[0]

    return tf.foldl(add, rows, 0.0)


def folded_products(x: tf.Tensor, ys: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
    """Case 14: the sum over all y of x * (y + z), in a loop."""
    return tf.foldl(lambda total, y: total + x * (y + z), ys, tf.zeros_like(z))


def sinkhorn_step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Case 15."""
    return tf.reduce_logsumexp(-squared_distances(x, y), 1)


def jaccard_neighbours(x: tf.Tensor) -> tf.Tensor:
    """Case 16."""
    shared = tf.matmul(x, x, transpose_b=True)
    sizes = tf.reduce_sum(x, 1)
    union = sizes[:, None] + sizes[None] - shared
    return tf.math.top_k(shared / tf.maximum(union, 1), 10)


def exact_gp(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Case 17: a full Cholesky factor."""
    kernel = tf.exp(-squared_distances(x, x)) + 0.1 * tf.eye(x.shape[0], dtype=x.dtype)
    return tf.linalg.triangular_solve(tf.linalg.cholesky(kernel), y)


def median_distance(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Case 18: a sort over both axes."""
    apart = tf.sort(tf.reshape(squared_distances(x, y), [-1]))
    return apart[apart.shape[0] // 2]
