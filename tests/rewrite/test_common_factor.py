"""x @ z + y @ z, which is one product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.rewrite.rewriting import assert_close, both, reasons, rewritten, rules, shown
from tests.split.functions import gradient_of
from tests.split.planning import floats
from tf_memsafe.rewrite.contraction import CONTRACTION

RULE = "common_factor"


def pair(x: tf.Tensor, y: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
    return x @ z + y @ z


def among_others(x: tf.Tensor, y: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
    return x @ z + tf.sin(z) + y @ z


def from_the_right(x: tf.Tensor, y: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
    return tf.matmul(z, x) + tf.matmul(z, y, transpose_b=True)


def two_axes_summed(x: tf.Tensor, y: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
    return tf.einsum("iab,abj->ij", x, z) + tf.einsum("bia,abj->ij", y, z)


def batch(x: tf.Tensor, y: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
    return tf.matmul(x, z) + tf.matmul(y, z, transpose_a=True)


def of_itself(z: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """Its gradient is (w + transpose(w)) @ z."""
    return tf.reduce_sum(tf.matmul(z, z, transpose_b=True) * w)


def used_elsewhere(x: tf.Tensor, y: tf.Tensor, z: tf.Tensor) -> Any:
    product = x @ z
    return product + y @ z, tf.exp(product)


def in_a_chain(x: tf.Tensor, y: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
    outer = 2 * tf.matmul(x[:, :1], y[:1])
    return outer @ z + y @ z


def over_other_axes(x: tf.Tensor, y: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
    return x @ z + tf.matmul(y, z, transpose_b=True)


def test_two_products_become_one() -> None:
    result = rewritten(CONTRACTION, pair, floats(5, 5), floats(5, 5), floats(5, 90))
    assert shown(result.graph) == [
        "graph(%1: f32[5,5], %2: f32[5,5], %3: f32[5,90]):",
        "%4 = add(%1, %2) : f32[5,5]",
        "%5 = dot_general(%4, %3) contract [1]x[0] : f32[5,90]",
        "return %5",
    ]
    assert rules(result) == [RULE]


def test_the_gradient_of_a_product_with_itself_is_one_product() -> None:
    result = rewritten(CONTRACTION, gradient_of(of_itself), floats(5, 90), floats(5, 5))
    assert rules(result).count(RULE) == 1


@pytest.mark.parametrize(
    ("function", "specs", "reason"),
    [
        (pair, [(9, 9), (9, 9), (9, 3)], "the sum of the other factors is larger"),
        (used_elsewhere, [(5, 5), (5, 5), (5, 90)], "one of the products is used elsewhere"),
        (in_a_chain, [(5, 5), (5, 5), (5, 90)], "one is a chain of products"),
    ],
)
def test_it_refuses(function: Callable[..., Any], specs: list[Any], reason: str) -> None:
    result = rewritten(CONTRACTION, function, *(floats(*shape) for shape in specs))
    assert RULE not in rules(result)
    assert reasons(result)[RULE].startswith(reason)


def test_products_along_other_axes_are_not_looked_at() -> None:
    result = rewritten(CONTRACTION, over_other_axes, *(floats(9, 9),) * 3)
    assert RULE not in {*rules(result), *reasons(result)}


@pytest.mark.parametrize("dtype", ["float16", "int32"])
def test_other_types_are_not_looked_at(dtype: str) -> None:
    specs = [tf.TensorSpec(shape, dtype) for shape in ((5, 5), (5, 5), (5, 90))]
    result = rewritten(CONTRACTION, pair, *specs)
    assert RULE not in {*rules(result), *reasons(result)}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (pair, [(5, 7), (5, 7), (7, 90)]),
        (pair, [(1, 1), (1, 1), (1, 1)]),
        (pair, [(5, 0), (5, 0), (0, 90)]),
        (among_others, [(7, 7), (7, 7), (7, 90)]),
        (from_the_right, [(7, 5), (5, 7), (90, 7)]),
        (two_axes_summed, [(5, 2, 3), (3, 5, 2), (2, 3, 90)]),
        (batch, [(3, 5, 7), (3, 7, 5), (3, 7, 90)]),
        (gradient_of(of_itself), [(7, 90), (7, 7)]),
    ],
)
def test_numbers(function: Callable[..., Any], shapes: list[Any], dtype: str) -> None:
    random = np.random.default_rng(0)
    arguments = [tf.constant(random.normal(size=shape), dtype) for shape in shapes]
    assert_close(CONTRACTION, 50 * float(np.finfo(dtype).eps), function, *arguments)


@pytest.mark.parametrize("special", [np.nan, np.inf])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_is_not_finite_shows_in_the_same_places(special: float, place: int) -> None:
    random = np.random.default_rng(0)
    arrays = [np.abs(random.normal(size=shape)) + 0.1 for shape in ((5, 7), (5, 7), (7, 90))]
    arrays[place][2, 3] = special
    for got, expected in both(CONTRACTION, pair, *map(tf.constant, arrays)):
        np.testing.assert_allclose(got, expected, rtol=1e-14)
