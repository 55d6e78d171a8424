"""The computations of shared/CASES.md, each a small function with the size it was reported at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tests.acceptance.computations import (
    attention,
    batched_neighbours,
    causal_attention,
    chain,
    cloud_neighbours,
    discrepancy,
    exact_gp,
    folded_products,
    folded_tiles,
    jaccard_neighbours,
    matern_predictive_variance,
    median_distance,
    nearest,
    product_by_broadcast,
    products_in_a_loop,
    sinkhorn_step,
    sparse_gp,
    tiled_distances,
)
from tests.programs import gradients


class Case(NamedTuple):
    """One row: the function, its arguments at a small and at the reported size, and the limit.

    blocked: the op that has to have a value whole, where the limit cannot be kept to.
    too_long: why it is not run at the reported size.
    """

    number: int
    function: Callable[..., Any]
    small: tuple[tf.TensorSpec, ...]
    reported: tuple[tf.TensorSpec, ...]
    limit: str
    blocked: str | None = None
    too_long: str | None = None


def floats(*shape: int) -> tf.TensorSpec:
    return tf.TensorSpec(shape, tf.float32)


def doubles(*shape: int) -> tf.TensorSpec:
    return tf.TensorSpec(shape, tf.float64)


CASES = (
    Case(
        1,
        sparse_gp,
        (doubles(60, 9), doubles(60, 1)),
        (doubles(820_000, 9), doubles(820_000, 1)),
        "500MB",
    ),
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
