"""Products and sums are of what is there, without views between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.ops.makers import dot
from tests.rewrite.canonical_form import body, canonical_of, parameters
from tests.rewrite.rewriting import assert_close, graph_for, rules, shown
from tests.split.planning import floats
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.rewrite.canonical import CANONICAL
from tf_memsafe.rewrite.driver import apply
from tf_memsafe.rewrite.maths import sum_over, transpose

Function = Callable[..., Any]


def product(x: Node, y: Node, *numbers: tuple[int, ...]) -> Node:
    return build.emit("dot_general", (x, y), dot(*numbers))


def lines(function: Function, *specs: tf.TensorSpec) -> list[str]:
    return shown(apply(CANONICAL, graph_for(function, *specs)).graph)[1:-1]


# --- transposes ---------------------------------------------------------------------------------


def test_transposes_are_folded_into_products() -> None:
    def products(a: tf.Tensor, b: tf.Tensor) -> list[tf.Tensor]:
        return [tf.transpose(a) @ tf.transpose(b), tf.einsum("ki,jk->ij", a, b)]

    result = apply(CANONICAL, graph_for(products, floats(5, 4), floats(3, 5)))
    assert shown(result.graph) == [
        "graph(%1: f32[5,4], %2: f32[3,5]):",
        "%3 = dot_general(%1, %2) contract [0]x[1] : f32[4,3]",
        "return %3, %3",
    ]


def test_a_transpose_that_orders_the_result_is_kept() -> None:
    x, y = parameters((2, 3, 4), (4, 5))
    turned = transpose(x, (1, 0, 2))
    assert not canonical_of(product(turned, y, (), (), (2,), (0,))).rewrites


def test_a_transposed_product_is_the_product_of_the_others() -> None:
    x, y = parameters((2, 3, 4), (2, 4, 5))
    turned = transpose(product(x, y, (0,), (0,), (2,), (1,)), (0, 2, 1))
    assert body(canonical_of(turned)) == [
        "%3 = dot_general(%2, %1) batch [0]x[0] contract [1]x[2] : f32[2,5,3]"
    ]


def test_but_not_if_it_is_used_as_it_is_or_its_batch_moves() -> None:
    x, y = parameters((2, 3, 4), (2, 4, 5))
    both = product(x, y, (0,), (0,), (2,), (1,))
    assert not canonical_of(transpose(both, (0, 2, 1)), both).rewrites
    assert not canonical_of(transpose(both, (1, 0, 2))).rewrites


# --- einsum's sandwiches ------------------------------------------------------------------------

SANDWICHES: dict[str, tuple[Function, list[tuple[int, ...]], str]] = {
    "tensordot": (
        lambda x, y: tf.tensordot(x, y, [[-1], [-1]]),
        [(2, 5, 8), (3, 6, 8)],
        "contract [2]x[2] : f32[2,5,3,6]",
    ),
    "tensordot over two axes": (
        lambda x, y: tf.tensordot(x, y, [[1, 2], [0, 1]]),
        [(4, 2, 5), (2, 5, 3)],
        "contract [1,2]x[0,1] : f32[4,3]",
    ),
    "a dense layer": (
        lambda x, w: tf.reshape(tf.reshape(x, [10, 8]) @ w, [2, 5, 7]),
        [(2, 5, 8), (8, 7)],
        "contract [2]x[0] : f32[2,5,7]",
    ),
    "its gradient": (
        lambda x, g: tf.matmul(tf.reshape(x, [10, 8]), tf.reshape(g, [10, 7]), transpose_a=True),
        [(2, 5, 8), (2, 5, 7)],
        "contract [0,1]x[0,1] : f32[8,7]",
    ),
    "einsum": (
        lambda x, y: tf.einsum("bqhd,bkhd->bhqk", x, y),
        [(2, 5, 3, 8), (2, 6, 3, 8)],
        "batch [0,2]x[0,2] contract [3]x[3] : f32[2,3,5,6]",
    ),
    "a merged batch": (
        lambda x, y: tf.reshape(tf.reshape(x, [6, 5, 8]) @ tf.reshape(y, [6, 8, 7]), [2, 3, 5, 7]),
        [(2, 3, 5, 8), (2, 3, 8, 7)],
        "batch [0,1]x[0,1] contract [3]x[2] : f32[2,3,5,7]",
    ),
}


@pytest.mark.parametrize("name", SANDWICHES)
def test_sandwiches_are_opened(name: str) -> None:
    function, shapes, expected = SANDWICHES[name]
    assert lines(function, *(floats(*shape) for shape in shapes)) == [
        f"%3 = dot_general(%1, %2) {expected}"
    ]
    generator = np.random.default_rng(0)
    arguments = [generator.normal(size=shape).astype(np.float32) for shape in shapes]
    # XLA may add up 10 terms in another order.
    assert_close(CANONICAL, 1e-6, function, *arguments)


def test_axes_that_are_merged_in_one_factor_only_stay_so() -> None:
    x, y = parameters((2, 5, 8), (10, 7))
    merged = product(build.reshape(x, (10, 8)), y, (), (), (0,), (0,))
    assert not canonical_of(merged).rewrites


def test_axes_that_are_merged_otherwise_stay_so() -> None:
    x, y = parameters((2, 5, 8), (5, 2, 7))
    merged = product(build.reshape(x, (10, 8)), build.reshape(y, (10, 7)), (), (), (0,), (0,))
    assert not canonical_of(merged).rewrites


# --- products without a sum ---------------------------------------------------------------------


def test_a_product_that_sums_nothing_is_elementwise() -> None:
    x, y = parameters((5, 4), (4, 5, 3))
    assert body(canonical_of(product(x, y, (0, 1), (1, 0), (), ()))) == [
        "%3 = transpose(%1) permutation=[1,0] : f32[4,5]",
        "%4 = broadcast_in_dim(%3) broadcast_dimensions=[0,1] : f32[4,5,3]",
        "%5 = multiply(%4, %2) : f32[4,5,3]",
        "%6 = transpose(%5) permutation=[1,0,2] : f32[5,4,3]",
    ]


def test_an_outer_product_is_left_to_the_chain_it_is_in() -> None:
    x, y = parameters((5,), (4,))
    assert not canonical_of(product(x, y, (), (), (), ())).rewrites


# --- sums ---------------------------------------------------------------------------------------


def test_a_sum_of_a_transpose() -> None:
    (x,) = parameters((2, 3, 4))
    assert body(canonical_of(sum_over(transpose(x, (2, 0, 1)), (1,)))) == [
        "%2 = constant() 0.0 : f32[]",
        "%3 = reduce(%1, %2) dimensions=[0] : f32[3,4]",
        "%7 = transpose(%3) permutation=[1,0] : f32[4,3]",
    ]


@pytest.mark.parametrize(
    ("shape", "axes", "expected"),
    [
        ((10, 18), (1,), "reduce(%1, %2) dimensions=[2,3] : f32[2,5]"),
        ((10, 3, 6), (1, 2), "reduce(%1, %2) dimensions=[2,3] : f32[2,5]"),
        ((2, 5, 18), (0,), "reduce(%1, %2) dimensions=[0] : f32[5,3,6]"),
    ],
)
def test_a_sum_of_merged_axes(shape: tuple[int, ...], axes: tuple[int, ...], expected: str) -> None:
    (x,) = parameters((2, 5, 3, 6))
    result = canonical_of(sum_over(build.reshape(x, shape), axes))
    assert rules(result)[0] == "reduction_of_reshape"
    assert body(result)[1] == f"%3 = {expected}"


def test_a_sum_of_split_axes_stays() -> None:
    (x,) = parameters((10, 4))
    assert not canonical_of(sum_over(build.reshape(x, (2, 5, 4)), (0,))).rewrites


def test_any_reduction_of_what_repeats_and_of_views() -> None:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        wide = tf.broadcast_to(x[:, None], [4, 5, 6])
        return [tf.reduce_max(wide, 0), tf.reduce_all(tf.transpose(x) > 0, 1)]

    x = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    assert_close(CANONICAL, 0, function, x)
    assert not any("[4,5,6]" in line for line in lines(function, floats(4, 6)))


def test_a_product_of_wide_sums_keeps_its_type() -> None:
    x, y = parameters((2, 5, 8), (8, 7))
    flat = build.reshape(build.convert(x, "bf16"), (10, 8))
    numbers = DotNumbers((), (), (1,), (0,))
    attributes = dot(*numbers)
    wide = build.emit(
        "dot_general",
        (flat, build.convert(y, "bf16")),
        attributes,
        type=y.tensor.with_shape((10, 7)),
    )
    graph = apply(CANONICAL, Graph((x, y), (build.reshape(wide, (2, 5, 7)),))).graph
    assert shown(graph)[-2].endswith("contract [2]x[0] : f32[2,5,7]")
