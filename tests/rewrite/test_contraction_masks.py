"""What stands between a sum and a product: masks, concatenations, repeats, and products itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.rewrite.rewriting import (
    assert_close,
    assert_same_bits,
    reasons,
    rewritten,
    rules,
    shown,
    special,
)
from tests.split.planning import floats
from tf_memsafe.hlo.order import topological
from tf_memsafe.rewrite.contraction import CONTRACTION, MOST_PARTS
from tf_memsafe.rewrite.driver import Rewritten

Function = Callable[..., Any]
MASK = tf.TensorSpec((9, 6), tf.bool)


def largest(result: Rewritten) -> int:
    return max(node.tensor.size for node in topological(result.graph.outputs))


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.normal(size=shape).astype(np.float32) for shape in shapes]


# --- masks --------------------------------------------------------------------------------------


def masked(x: tf.Tensor, y: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.where(mask[:, :, None], x[:, None] * y[None], 0.0), -1)


def test_a_mask_is_left_outside() -> None:
    result = rewritten(CONTRACTION, masked, floats(9, 7), floats(6, 7), MASK)
    assert rules(result) == ["sum_of_masked", "sum_of_broadcast_product"]
    assert shown(result.graph) == [
        "graph(%1: f32[9,7], %2: f32[6,7], %3: i1[9,6]):",
        "%4 = dot_general(%1, %2) contract [1]x[1] : f32[9,6]",
        "%5 = constant() 0.0 : f32[]",
        "%6 = broadcast_in_dim(%5) broadcast_dimensions=[] : f32[9,6]",
        "%7 = select(%3, %4, %6) : f32[9,6]",
        "return %7",
    ]
    x, y = arrays((9, 7), (6, 7))
    mask = np.random.default_rng(1).random((9, 6)) < 0.5
    # A row that is masked may have NaN and inf.
    mask[0], mask[1] = False, False
    x[0], x[1, 2] = np.nan, np.inf
    assert_close(CONTRACTION, 1e-6, masked, x, y, mask)


def test_the_other_branch_may_be_zero() -> None:
    def function(x: tf.Tensor, y: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.where(mask[:, :, None], 0.0, x[:, None] * y[None]), -1)

    result = rewritten(CONTRACTION, function, floats(9, 7), floats(6, 7), MASK)
    assert rules(result) == ["sum_of_masked", "sum_of_broadcast_product"]
    assert_close(CONTRACTION, 1e-6, function, *arrays((9, 7), (6, 7)), np.eye(9, 6) > 0)


def test_a_mask_that_multiplies_is_a_factor() -> None:
    def function(x: tf.Tensor, y: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.cast(mask, tf.float32)[:, :, None] * x[:, None] * y[None], -1)

    result = rewritten(CONTRACTION, function, floats(9, 7), floats(6, 7), MASK)
    assert largest(result) == 63
    assert_close(CONTRACTION, 1e-6, function, *arrays((9, 7), (6, 7)), np.eye(9, 6) > 0)


def test_a_mask_along_what_is_summed_is_refused() -> None:
    def function(x: tf.Tensor, y: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.where(mask[:, None], x[:, None] * y[None], 0.0), -1)

    result = rewritten(
        CONTRACTION, function, floats(9, 7), floats(6, 7), tf.TensorSpec((9, 7), tf.bool)
    )
    assert not result.rewrites
    assert "may hide NaN" in reasons(result)["sum_of_masked"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, m: tf.reduce_max(tf.where(m[:, :, None], x, 0.0), -1),
        lambda x, m: tf.reduce_sum(tf.where(m[:, :, None], x, 1.0), -1),
        lambda x, m: tf.reduce_sum(tf.where(m[:, :, None], x, x[::-1]), -1),
        lambda x, m: tf.reduce_sum(tf.where(m[:, :, None], x, 0.0), 1),
    ],
)
def test_other_masks_are_left_alone(function: Function) -> None:
    assert not rewritten(CONTRACTION, function, floats(9, 6, 5), MASK).rewrites


# --- concatenations -----------------------------------------------------------------------------


def stacked(x: tf.Tensor, y: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    ones = tf.ones([*x.shape, 1])
    weights = tf.concat([ones, tf.broadcast_to(w, [*x.shape, 1])], -1)
    return tf.reduce_sum(tf.stack([tf.exp(x), tf.sin(y)], -1) * weights, -1)


def test_a_sum_over_what_was_stacked() -> None:
    result = rewritten(CONTRACTION, stacked, floats(9, 6), floats(9, 6), floats())
    assert set(rules(result)) == {"sum_of_concatenation"}
    assert largest(result) == 54
    assert not any("concatenate" in line for line in shown(result.graph))
    assert_close(CONTRACTION, 1e-6, stacked, *arrays((9, 6), (9, 6), ()))


def test_what_is_joined_along_an_axis_that_stays_is_joined_later() -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.concat([x, tf.exp(y)], 0), 1)

    result = rewritten(CONTRACTION, function, floats(9, 6), floats(4, 6))
    assert shown(result.graph)[-2].endswith("dimension=0 : f32[13]")
    x, y = arrays((9, 6), (4, 6))
    assert_same_bits(CONTRACTION, function, special(x, [np.nan, np.inf]), y)


def test_many_parts_are_refused() -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.stack([tf.sin(k * x) for k in range(1, MOST_PARTS + 2)]), 0)

    result = rewritten(CONTRACTION, function, floats(9))
    assert not result.rewrites
    assert "more than 8 parts" in reasons(result)["sum_of_concatenation"]


# --- products inside products -------------------------------------------------------------------


def einsum(x: tf.Tensor, y: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return tf.einsum("nmd,d->nm", x[:, None] * y[None], w)


def test_a_product_of_a_broadcast_product() -> None:
    result = rewritten(CONTRACTION, einsum, floats(9, 7), floats(6, 7), floats(7))
    assert rules(result) == ["product_of_broadcast_product"]
    assert largest(result) == 63
    assert_close(CONTRACTION, 1e-6, einsum, *arrays((9, 7), (6, 7), (7,)))


def test_an_einsum_of_what_was_broadcast() -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        wide = (tf.broadcast_to(each, [9, 6, 7]) for each in (x[:, None], y))
        return tf.einsum("nmd,nmd->nm", *wide)

    result = rewritten(CONTRACTION, function, floats(9, 7), floats(6, 7))
    assert shown(result.graph)[1:-1] == ["%3 = dot_general(%1, %2) contract [1]x[1] : f32[9,6]"]
    assert_close(CONTRACTION, 1e-6, function, *arrays((9, 7), (6, 7)))


def test_a_small_inner_size_is_refused_there_too() -> None:
    result = rewritten(CONTRACTION, einsum, floats(9, 3), floats(6, 3), floats(3))
    assert not result.rewrites
    assert "an inner size of 3" in reasons(result)["product_of_broadcast_product"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, w: tf.einsum("nd,md->nm", x * w, y),
        lambda x, y, w: tf.einsum("nmd,d->nm", tf.exp(x[:, None] * y[None]), w),
        lambda x, y, w: tf.einsum("nmd,d->nm", x[:, None] + y[None], w),
    ],
)
def test_other_products_are_left_alone(function: Function) -> None:
    specs = floats(9, 7), floats(6, 7), floats(7)
    assert "product_of_broadcast_product" not in rules(rewritten(CONTRACTION, function, *specs))


def test_a_sum_of_what_repeats() -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.broadcast_to(x[:, None], [9, 5, 7]), [1, 2])

    result = rewritten(CONTRACTION, function, floats(9, 7))
    assert rules(result) == ["sum_of_broadcast_product"]
    assert largest(result) == 63
    assert_close(CONTRACTION, 1e-6, function, *arrays((9, 7)))
