"""sum((x @ y) * w, -1), where w @ transpose(y) is there anyway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.rewrite.rewriting import both, reasons, rewritten, rules, shown
from tests.split.functions import attention, gradient_of
from tests.split.planning import floats
from tf_memsafe.rewrite.contraction import CONTRACTION

RULE = "weighted_sum_of_columns"


def weighted(x: tf.Tensor, y: tf.Tensor, w: tf.Tensor) -> Any:
    product = tf.matmul(x, y, transpose_b=True)
    return tf.reduce_sum(w * product, -1), w @ y


def other_axis(x: tf.Tensor, y: tf.Tensor, w: tf.Tensor) -> Any:
    return tf.reduce_sum(w * tf.matmul(x, y, transpose_b=True), -2), w @ y


def nothing_there(x: tf.Tensor, y: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(w * tf.matmul(x, y, transpose_b=True), -1)


def other_product(x: tf.Tensor, y: tf.Tensor, w: tf.Tensor) -> Any:
    return nothing_there(x, y, w), w @ tf.sin(y)


def transposed(x: tf.Tensor, y: tf.Tensor, w: tf.Tensor) -> Any:
    """The axes of x in another order than those of w @ y."""
    product = tf.einsum("dhi,jdh->ij", x, y)
    return tf.reduce_sum(product * w, 1), tf.einsum("ij,jdh->idh", w, y)


def test_the_product_that_is_there_is_summed_instead() -> None:
    specs = floats(3, 9, 7), floats(3, 15, 7), floats(3, 9, 15)
    result = rewritten(CONTRACTION, weighted, *specs)
    assert shown(result.graph) == [
        "graph(%1: f32[3,9,7], %2: f32[3,15,7], %3: f32[3,9,15]):",
        "%4 = dot_general(%3, %2) batch [0]x[0] contract [2]x[1] : f32[3,9,7]",
        "%5 = multiply(%1, %4) : f32[3,9,7]",
        "%6 = constant() 0.0 : f32[]",
        "%7 = reduce(%5, %6) dimensions=[2] : f32[3,9]",
        "return %7, %4",
    ]
    assert rules(result) == [RULE]


def test_a_larger_product_is_not_summed_instead() -> None:
    result = rewritten(CONTRACTION, weighted, floats(9, 7), floats(5, 7), floats(9, 5))
    assert reasons(result)[RULE] == "that product is no smaller"


@pytest.mark.parametrize("function", [nothing_there, other_product])
def test_another_product_is_not_made_for_it(function: Callable[..., Any]) -> None:
    result = rewritten(CONTRACTION, function, floats(9, 7), floats(5, 7), floats(9, 5))
    assert RULE not in rules(result)
    assert reasons(result)[RULE] == "no other product of the weights is there"


def test_a_sum_over_the_other_axis_is_not_looked_at() -> None:
    result = rewritten(CONTRACTION, other_axis, floats(9, 7), floats(5, 7), floats(9, 5))
    assert RULE not in {*rules(result), *reasons(result)}


def test_attention_has_it_in_its_gradient() -> None:
    result = rewritten(CONTRACTION, gradient_of(attention), *(floats(2, 50, 8),) * 3)
    assert rules(result).count(RULE) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (weighted, [(3, 9, 7), (3, 15, 7), (3, 9, 15)]),
        (weighted, [(1, 1, 7), (1, 13, 7), (1, 1, 13)]),
        (transposed, [(3, 2, 9), (11, 3, 2), (9, 11)]),
    ],
)
def test_numbers(function: Callable[..., Any], shapes: list[Any], dtype: str) -> None:
    random = np.random.default_rng(0)
    arguments = [tf.constant(random.normal(size=shape), dtype) for shape in shapes]
    for got, expected in both(CONTRACTION, function, *arguments):
        # Sums of up to 65 terms of about 1, some of which cancel.
        np.testing.assert_allclose(got, expected, rtol=0, atol=200 * float(np.finfo(dtype).eps))


@pytest.mark.parametrize("special", [np.nan, np.inf])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_is_not_finite_shows_in_the_same_rows(special: float, place: int) -> None:
    random = np.random.default_rng(0)
    arrays = [np.abs(random.normal(size=shape)) + 0.1 for shape in ((9, 7), (15, 7), (9, 15))]
    arrays[place][2, 3] = special
    for got, expected in both(CONTRACTION, weighted, *map(tf.constant, arrays)):
        np.testing.assert_allclose(got, expected, rtol=1e-13)
