"""The computations of shared/CASES.md, each a small function with the size it was reported at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tests.programs import gradients


class Case(NamedTuple):
    """One row: the function, its arguments at a small and at the reported size, and the limit.

    fits: whether it can be held to the limit; else the error has to name `blocked`.
    """

    number: int
    function: Callable[..., Any]
    small: tuple[tf.TensorSpec, ...]
    reported: tuple[tf.TensorSpec, ...]
    limit: str
    blocked: str | None = None


def floats(*shape: int) -> tf.TensorSpec:
    return tf.TensorSpec(shape, tf.float32)


def doubles(*shape: int) -> tf.TensorSpec:
    return tf.TensorSpec(shape, tf.float64)


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


CASES = (
    Case(
        2,
        matern_predictive_variance,
        (doubles(40, 2), doubles(5, 2)),
        (doubles(50_000, 2), doubles(5, 2)),
        "200MB",
    ),
    Case(3, cloud_neighbours, (floats(1, 60, 3),), (floats(1, 110_000, 3),), "1GB"),
    Case(
        4,
        nearest,
        (doubles(47, 3), doubles(90, 3)),
        (doubles(47_350, 3), doubles(991_553, 3)),
        "1GB",
    ),
    Case(5, batched_neighbours, (floats(2, 50, 8),), (floats(2, 50_000, 64),), "1GB"),
    Case(
        6,
        gradients(discrepancy),
        (floats(30, 4), floats(20, 4)),
        (floats(20_000, 32), floats(20_000, 32)),
        "500MB",
    ),
    Case(7, causal_attention, (floats(2, 50, 8),) * 3, (floats(8, 20_000, 64),) * 3, "1GB"),
    Case(
        7, gradients(causal_attention), (floats(2, 50, 8),) * 3, (floats(8, 20_000, 64),) * 3, "1GB"
    ),
    Case(8, attention, (floats(1, 2, 64, 8),) * 3, (floats(1, 8, 16_384, 40),) * 3, "500MB"),
    Case(
        9,
        products_in_a_loop,
        (floats(4, 20, 8), floats(4, 8, 20)),
        (floats(128, 8070, 64), floats(128, 64, 8070)),
        "1GB",
    ),
    Case(
        10,
        product_by_broadcast,
        (floats(2, 9, 7), floats(2, 7, 5)),
        (floats(8, 1000, 1000),) * 2,
        "300MB",
    ),
    Case(11, tiled_distances, (floats(30, 5), floats(20, 5)), (floats(20_000, 50),) * 2, "2GB"),
    Case(
        12,
        chain,
        (floats(50, 50), floats(50, 50), floats(50, 1)),
        (floats(8000, 8000), floats(8000, 8000), floats(8000, 1)),
        "560MB",
    ),
    Case(
        13,
        gradients(folded_tiles),
        (floats(1), floats(20, 7)),
        (floats(1), floats(10_000, 1000)),
        "1GB",
    ),
    Case(
        14,
        gradients(folded_products),
        (floats(), floats(5), floats(4, 5)),
        (floats(), floats(100), floats(3000, 3000)),
        "500MB",
    ),
    Case(
        15,
        sinkhorn_step,
        (floats(60, 3), floats(40, 3)),
        (floats(65_536, 3), floats(32_768, 3)),
        "500MB",
    ),
    Case(
        15,
        gradients(sinkhorn_step),
        (floats(60, 3), floats(40, 3)),
        (floats(65_536, 3), floats(32_768, 3)),
        "500MB",
    ),
    Case(16, jaccard_neighbours, (floats(60, 16),), (floats(20_000, 512),), "300MB"),
    Case(
        17,
        exact_gp,
        (doubles(40, 3), doubles(40, 1)),
        (doubles(1_246_064, 3), doubles(1_246_064, 1)),
        "8GB",
        blocked="cholesky",
    ),
    Case(
        18,
        median_distance,
        (floats(20, 3), floats(10, 3)),
        (floats(50_000, 3), floats(30_000, 3)),
        "4GB",
        blocked="sort",
    ),
)
