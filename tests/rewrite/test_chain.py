"""Chains of products and scalar factors in the cheapest order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.ops.makers import dot
from tests.rewrite.rewriting import assert_close, both, reasons, rewritten, rules, shown, special
from tests.split.planning import floats
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.op import Symbol
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite import maths
from tf_memsafe.rewrite.chain import CHAIN
from tf_memsafe.rewrite.driver import apply


def test_a_matrix_product_times_a_vector() -> None:
    result = rewritten(CHAIN, lambda a, b, v: (a @ b) @ v, floats(9, 7), floats(7, 5), floats(5, 1))
    assert shown(result.graph) == [
        "graph(%1: f32[9,7], %2: f32[7,5], %3: f32[5,1]):",
        "%4 = dot_general(%2, %3) contract [1]x[0] : f32[7,1]",
        "%5 = dot_general(%1, %4) contract [1]x[0] : f32[9,1]",
        "return %5",
    ]
    (fired,) = result.rewrites
    assert (fired.bytes_before, fired.bytes_after) == (180, 36)


def test_a_transposed_product_times_a_vector() -> None:
    def function(a: tf.Tensor, b: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        return tf.linalg.matvec(tf.transpose(a @ b), v)

    result = rewritten(CHAIN, function, floats(9, 7), floats(7, 5), floats(9))
    assert shown(result.graph)[1:-2] == [
        "%4 = reshape(%3) : f32[9,1]",
        "%5 = dot_general(%1, %4) contract [0]x[0] : f32[7,1]",
        "%6 = dot_general(%2, %5) contract [0]x[0] : f32[5,1]",
    ]


def test_matrix_vector_products_in_a_row_and_einsum() -> None:
    def function(a: tf.Tensor, b: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        return tf.einsum("bik,kj->bij", tf.einsum("bij,jk->bik", x, a), b)

    wide = rewritten(CHAIN, function, floats(2, 3), floats(3, 2), floats(4, 9, 2))
    assert "%4 = dot_general(%1, %2) contract [1]x[0] : f32[2,2]" in shown(wide.graph)
    best = rewritten(CHAIN, function, floats(2, 3), floats(3, 50), floats(1, 2, 2))
    assert not best.rewrites


def test_a_product_that_others_use_is_there_already() -> None:
    def function(a: tf.Tensor, b: tf.Tensor, v: tf.Tensor) -> list[tf.Tensor]:
        shared = a @ b
        return [tf.tanh(shared), shared @ v]

    specs = floats(9, 7), floats(7, 5), floats(5, 1)
    assert not rewritten(CHAIN, function, *specs).rewrites
    reason = reasons(rewritten(CHAIN, function, *specs))["reassociate"]
    assert reason == "no order of the 3 factors takes less"


def test_a_result_is_there_too_unless_its_factors_are_cheaper() -> None:
    def function(a: tf.Tensor, b: tf.Tensor, v: tf.Tensor) -> list[tf.Tensor]:
        shared = a @ b
        return [shared, shared @ v]

    assert rules(rewritten(CHAIN, function, floats(90, 2), floats(2, 80), floats(80, 1)))
    assert not rules(rewritten(CHAIN, function, floats(9, 7), floats(7, 8), floats(8, 1)))


def test_a_square_of_a_product_is_one_product_twice() -> None:
    def function(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return (a @ b) @ (a @ b)

    assert not rewritten(CHAIN, function, floats(7, 6), floats(6, 7)).rewrites


def test_ties_keep_the_users_order() -> None:
    specs = (floats(4, 4),) * 4
    for function in (
        lambda a, b, c, d: ((a @ b) @ c) @ d,
        lambda a, b, c, d: a @ (b @ (c @ d)),
        lambda a, b, c, d: (a @ b) @ (c @ d),
    ):
        assert not rewritten(CHAIN, function, *specs).rewrites


# --- scalar factors -----------------------------------------------------------------------------


def test_scalar_factors_go_to_the_smallest_operand() -> None:
    def function(s: tf.Tensor, a: tf.Tensor, b: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        return -(s * (a @ b)) / s @ v

    result = rewritten(CHAIN, function, floats(), floats(9, 7), floats(7, 5), floats(5, 1))
    assert shown(result.graph)[1:-1] == [
        "%5 = broadcast_in_dim(%1) broadcast_dimensions=[] : f32[5,1]",
        "%6 = divide(%4, %5) : f32[5,1]",
        "%7 = negate(%6) : f32[5,1]",
        "%8 = multiply(%7, %5) : f32[5,1]",
        "%9 = dot_general(%3, %8) contract [1]x[0] : f32[7,1]",
        "%10 = dot_general(%2, %9) contract [1]x[0] : f32[9,1]",
    ]


def test_a_scaled_operand_and_a_scaled_result() -> None:
    for function in (lambda a, v: (2.5 * a) @ v, lambda a, v: tf.transpose(2.5 * a @ v)):
        result = rewritten(CHAIN, function, floats(9, 7), floats(7, 1))
        assert "%5 = multiply(%2, %4) : f32[7,1]" in shown(result.graph)[:4]


def test_a_scalar_on_what_others_use_stays() -> None:
    def function(a: tf.Tensor, v: tf.Tensor) -> list[tf.Tensor]:
        scaled = 2.5 * a
        return [scaled, scaled @ v]

    assert not rewritten(CHAIN, function, floats(9, 7), floats(7, 1)).rewrites


def test_a_scaled_product_that_others_use_is_there_with_its_scalar() -> None:
    def function(a: tf.Tensor, b: tf.Tensor, v: tf.Tensor) -> list[tf.Tensor]:
        scaled = 2.5 * (a @ b)
        return [scaled, scaled @ v]

    assert not rewritten(CHAIN, function, floats(9, 7), floats(7, 6), floats(6, 1)).rewrites
    result = rewritten(CHAIN, function, floats(90, 2), floats(2, 80), floats(80, 1))
    assert shown(result.graph)[3:-1] == [
        "%6 = multiply(%2, %5) : f32[2,80]",
        "%7 = dot_general(%1, %6) contract [1]x[0] : f32[90,80]",
        "%8 = dot_general(%6, %3) contract [1]x[0] : f32[2,1]",
        "%9 = dot_general(%1, %8) contract [1]x[0] : f32[90,1]",
    ]


def test_a_scalar_that_is_on_the_smallest_stays() -> None:
    result = rewritten(CHAIN, lambda a, b: 2.5 * (a @ b), floats(3, 9), floats(9, 2))
    assert reasons(result)["reassociate"] == "no order of the 2 factors takes less"


def test_an_integer_quotient_is_no_scalar_factor() -> None:
    x, y, v = build.region_parameters([TensorType("i32", s) for s in ((9, 7), (7, 8), (8, 1))])
    product = build.emit("dot_general", (x, y), dot((), (), (1,), (0,)))
    two = build.broadcast(build.constant(2, TensorType("i32")), (9, 8))
    halved = build.emit("divide", (product, two))
    result = build.emit("dot_general", (halved, v), dot((), (), (1,), (0,)))
    assert not apply(CHAIN, Graph((x, y, v), (result,))).rewrites


# --- views and batches --------------------------------------------------------------------------


def test_vectors_between_products() -> None:
    def function(u: tf.Tensor, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.tensordot(u, tf.linalg.matvec(a @ b, u), 1)

    result = rewritten(CHAIN, function, floats(9), floats(9, 7), floats(7, 9))
    assert [line for line in shown(result.graph) if "dot" in line] == [
        "%5 = dot_general(%4, %2) contract [1]x[0] : f32[1,7]",
        "%7 = dot_general(%3, %6) contract [1]x[0] : f32[7,1]",
        "%8 = dot_general(%5, %7) contract [1]x[0] : f32[1,1]",
    ]


def test_batches_that_some_factors_have() -> None:
    def function(x: tf.Tensor, y: tf.Tensor, a: tf.Tensor) -> tf.Tensor:
        return tf.einsum("bik,kl->bil", tf.einsum("bij,bjk->bik", x, y), a)

    result = rewritten(CHAIN, function, floats(4, 9, 7), floats(4, 7, 9), floats(9, 1))
    assert shown(result.graph)[1:-1] == [
        "%4 = dot_general(%2, %3) contract [2]x[0] : f32[4,7,1]",
        "%5 = dot_general(%1, %4) batch [0]x[0] contract [2]x[1] : f32[4,9,1]",
    ]


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda a, v: (a @ a + a @ tf.transpose(a)) @ v, "a sum of products"),
        (lambda a, v: tf.cast(a @ a, tf.float64) @ tf.cast(v, tf.float64), "rounded to f32"),
        (lambda a, v: tf.cast(bf16(a) @ bf16(a), tf.float32) @ v, "rounded to bf16"),
        (lambda a, v: tf.reshape(tf.reshape(a @ a, [3, 27]) @ tf.ones([27, 1]), [3]), "a reshape"),
        (lambda a, v: tf.einsum("bik,bk->i", summed_later(a), a), "the axes of a stack"),
    ],
)
def test_what_looks_like_a_chain(function: Callable[..., tf.Tensor], reason: str) -> None:
    result = rewritten(CHAIN, function, floats(9, 9), floats(9, 1))
    assert not result.rewrites
    assert reason in reasons(result)["reassociate"]


def bf16(x: tf.Tensor) -> tf.Tensor:
    return tf.cast(x, tf.bfloat16)


def summed_later(a: tf.Tensor) -> tf.Tensor:
    stack = tf.exp(a[:, :, None] * a[:, None, :])
    return tf.einsum("bij,bjk->bik", stack, stack)


def test_products_of_another_precision_end_a_chain() -> None:
    a, b, v = build.region_parameters([TensorType("f32", s) for s in ((9, 7), (7, 8), (8, 1))])
    numbers = DotNumbers((), (), (1,), (0,))
    highest = (Symbol("precision", "HIGHEST"),) * 2
    result = maths.dot(maths.dot(a, b, numbers, highest), v, numbers)
    refused = reasons(apply(CHAIN, Graph((a, b, v), (result,))))
    assert "differ in dtype, precision" in refused["reassociate"]


def test_converted_factors_are_factors() -> None:
    def function(a: tf.Tensor, b: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        return (tf.cast(a, tf.float32) @ tf.cast(b, tf.float32)) @ v

    half = [tf.TensorSpec(shape, tf.bfloat16) for shape in ([9, 7], [7, 5])]
    lines = shown(rewritten(CHAIN, function, *half, floats(5, 1)).graph)
    assert lines[-3:-1] == [
        "%6 = dot_general(%5, %3) contract [1]x[0] : f32[7,1]",
        "%7 = dot_general(%4, %6) contract [1]x[0] : f32[9,1]",
    ]


def test_a_sum_with_a_product_is_no_chain() -> None:
    result = rewritten(CHAIN, lambda a, v: (a @ a + a) @ v, floats(9, 9), floats(9, 1))
    assert not result.rewrites
    assert not result.refusals


def test_half_precision_is_refused() -> None:
    half = [tf.TensorSpec(shape, tf.float16) for shape in ([9, 7], [7, 5], [5, 1])]
    result = rewritten(CHAIN, lambda a, b, v: (a @ b) @ v, *half)
    assert "f16 may overflow" in reasons(result)["reassociate"]


def test_very_long_chains_are_refused_and_do_not_fail() -> None:
    x = build.region_parameters([TensorType("f32", (2, 2))])[0]
    y = x
    for _ in range(3000):
        y = build.emit("dot_general", (y, x), dot((), (), (1,), (0,)))
    assert "more than 200" in reasons(apply(CHAIN, Graph((x,), (y,))))["reassociate"]


def test_a_power_by_squaring_has_as_many_factors_as_it_likes() -> None:
    x = build.region_parameters([TensorType("f32", (2, 2))])[0]
    y = x
    for _ in range(40):
        y = build.emit("dot_general", (y, y), dot((), (), (1,), (0,)))
    assert not apply(CHAIN, Graph((x,), (y,))).rewrites


# --- numbers ------------------------------------------------------------------------------------


TOLERANCES = {"float32": 1e-6, "float64": 1e-15, "bfloat16": 2e-2, "complex64": 1e-6, "int32": 0.0}
"""A few units of rounding: sums of at most 9 terms, twice."""


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_numbers(dtype: str) -> None:
    generator = np.random.default_rng(0)
    shapes = (), (3, 9, 7), (3, 5, 7), (3, 5, 2)
    arguments = [tf.cast(generator.normal(size=s) * 3, dtype) for s in shapes]

    def function(s: tf.Tensor, a: tf.Tensor, b: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
        scaled = s * tf.matmul(a, b, transpose_b=True)
        return -scaled @ c if dtype == "int32" else (-scaled / 7) @ c

    assert_close(CHAIN, TOLERANCES[dtype], function, *arguments)


def test_nan_and_inf_go_where_they_went() -> None:
    generator = np.random.default_rng(0)
    a = special(generator.normal(size=(9, 7)).astype(np.float32), [np.nan, np.inf])
    b, v = generator.random(size=(7, 5), dtype=np.float32), np.ones((5, 1), np.float32)
    assert_close(CHAIN, 1e-6, lambda a, b, v: (a @ b) @ v, a, b, v)


@pytest.mark.parametrize("scalar", [np.inf, np.nan, 0.0])
def test_a_scalar_that_leaves_nothing_finite_leaves_nothing_finite(scalar: float) -> None:
    generator = np.random.default_rng(0)
    arguments = [generator.normal(size=shape) for shape in ((9, 7), (7, 5), (5, 1))]
    function = (
        (lambda a, b, v, s: s * (a @ b) @ v) if scalar else (lambda a, b, v, s: a @ b / s @ v)
    )
    ((got, expected),) = both(CHAIN, function, *arguments, np.float64(scalar))
    assert not np.isfinite(expected).any()
    assert not np.isfinite(got).any()
