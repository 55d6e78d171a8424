"""The diagonal of a large matrix without the matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.running import run
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
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.canonical import CANONICAL
from tf_memsafe.rewrite.diagonal import DIAGONAL
from tf_memsafe.rewrite.diagonal_gather import Diagonal
from tf_memsafe.rewrite.driver import Rewritten, apply

diag_part = tf.linalg.diag_part


def largest(result: Rewritten) -> int:
    """Elements of the largest tensor."""
    return max(type_.size for node in topological(result.graph.outputs) for type_ in node.results)


def tidied(function: Callable[..., Any], *specs: tf.TensorSpec) -> list[str]:
    return shown(apply(CANONICAL, rewritten(DIAGONAL, function, *specs).graph).graph)


def test_the_diagonal_of_a_product() -> None:
    assert tidied(lambda a, b: diag_part(a @ b), floats(50, 5), floats(5, 50)) == [
        "graph(%1: f32[50,5], %2: f32[5,50]):",
        "%3 = transpose(%2) permutation=[1,0] : f32[50,5]",
        "%4 = multiply(%1, %3) : f32[50,5]",
        "%5 = constant() 0.0 : f32[]",
        "%6 = reduce(%4, %5) dimensions=[1] : f32[50]",
        "return %6",
    ]


def test_the_trace_of_a_product() -> None:
    result = tidied(lambda a, b: tf.linalg.trace(a @ b), floats(50, 5), floats(5, 50))
    assert result[-2] == "%10 = reduce(%6, %5) dimensions=[0] : f32[]"


def test_another_diagonal_of_each_of_a_stack_of_wide_products() -> None:
    def function(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return diag_part(a @ b, k=-2)

    assert tidied(function, floats(3, 50, 5), floats(3, 5, 60))[1:4] == [
        "%3 = slice(%1) start_indices=[0,2,0] limit_indices=[3,50,5] strides=[1,1,1] : f32[3,48,5]",
        "%4 = slice(%2) start_indices=[0,0,0] limit_indices=[3,5,48] strides=[1,1,1] : f32[3,5,48]",
        "%5 = transpose(%4) permutation=[0,2,1] : f32[3,48,5]",
    ]


def kernel_diagonal(x: tf.Tensor, scales: tf.Tensor) -> tf.Tensor:
    distances = tf.reduce_sum(((x[:, None] - x[None]) / scales) ** 2, -1)
    return diag_part(0.5 * tf.exp(-distances) + tf.eye(x.shape[0], dtype=x.dtype) * x[:, 0])


def test_the_diagonal_of_a_kernel_matrix() -> None:
    result = rewritten(DIAGONAL, kernel_diagonal, floats(50, 4), floats(4))
    assert largest(result) <= 200
    assert set(rules(result)) == {
        "diagonal_of_elements",
        "diagonal_of_broadcast",
        "diagonal_of_reduction",
        "diagonal_of_known",
    }


def reshaped(x: tf.Tensor) -> tf.Tensor:
    return diag_part(tf.reshape(tf.tanh(x), [20, 30]), k=3)


def padded(x: tf.Tensor) -> tf.Tensor:
    return diag_part(tf.pad(x, [[1, 0], [0, 2]]), k=-1)


def test_the_diagonal_of_a_view_can_be_cut() -> None:
    assert tidied(padded, floats(6, 5))[1:] == [
        "%2 = iota() iota_dimension=0 : i32[7,7]",
        "%3 = constant() -1 : i32[]",
        "%4 = broadcast_in_dim(%3) broadcast_dimensions=[] : i32[7,7]",
        "%5 = add(%2, %4) : i32[7,7]",
        "%6 = iota() iota_dimension=1 : i32[7,7]",
        "%7 = compare(%5, %6) EQ : i1[7,7]",
        "%8 = constant() 0.0 : f32[]",
        "%9 = pad(%1, %8) edge_padding_low=[1,0] edge_padding_high=[0,2] interior_padding=[0,0]"
        " : f32[7,7]",
        "%10 = constant() -0.0 : f32[]",
        "%11 = broadcast_in_dim(%10) broadcast_dimensions=[] : f32[7,7]",
        "%12 = select(%7, %9, %11) : f32[7,7]",
        "%13 = reduce(%12, %10) dimensions=[1] : f32[7]",
        "%17 = slice(%13) start_indices=[1] limit_indices=[7] strides=[1] : f32[6]",
        "return %17",
    ]


@pytest.mark.parametrize("kind", ["constant", "splat", "rows", "columns", "stack"])
def test_the_diagonal_of_what_is_known_is_known(kind: str) -> None:
    type_ = TensorType("i32", (6, 2, 5))
    if kind in ("constant", "splat"):
        value = np.arange(60).reshape(6, 2, 5) if kind == "constant" else 7
        matrix = build.constant(value, type_)
    else:
        axis = {"rows": 2, "stack": 1, "columns": 0}[kind]
        matrix = build.emit("iota", (), {"iota_dimension": axis}, type=type_)
    graph = Graph((), (Diagonal(matrix, (2, 0), (1, 2), 4).gather(),))
    result = apply(DIAGONAL, graph)
    assert rules(result) == ["diagonal_of_known"]
    (got,), (expected,) = run(result.graph, ()), run(graph, ())
    np.testing.assert_array_equal(got, expected, strict=True)


# --- refusals -----------------------------------------------------------------------------------


def test_a_diagonal_over_two_axes_of_a_factor_is_refused() -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return diag_part(tf.einsum("abk,kc->abc", x, y))

    result = rewritten(DIAGONAL, function, floats(3, 8, 5), floats(5, 8))
    assert "more than one axis" in reasons(result)["diagonal_of_product"]


def test_the_diagonal_of_a_view_of_integers_is_refused() -> None:
    spec = tf.TensorSpec([36], tf.int32)
    result = rewritten(DIAGONAL, lambda x: diag_part(tf.reshape(x + 1, [6, 6])), spec)
    assert "a sum of i32" in reasons(result)["diagonal_of_view"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: diag_part(tf.linalg.triangular_solve(x, x)),
        diag_part,
        lambda x: diag_part(tf.reshape(x, [3, 27])),
        lambda x: tf.gather_nd(tf.tanh(x), [[0, 1], [1, 3]]),
        lambda x: tf.gather(x @ x, [0, 1, 2]),
        lambda x: diag_part(x @ x, k=(-1, 1)),
    ],
)
def test_other_gathers_are_left_alone(function: Callable[[tf.Tensor], tf.Tensor]) -> None:
    assert not rewritten(DIAGONAL, function, floats(9, 9)).rewrites


# --- numbers ------------------------------------------------------------------------------------

TOLERANCES = {"float32": 1e-6, "float64": 1e-15, "float16": 1e-3, "bfloat16": 1e-2, "int32": 0.0}
"""Rounding of sums of 5 terms, in another order; half precision adds up in 32 bits either way."""


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_numbers_of_products(dtype: str) -> None:
    generator = np.random.default_rng(0)
    a, b = (tf.cast(3 * generator.normal(size=shape), dtype) for shape in ((2, 9, 5), (2, 5, 7)))
    for shift in (-3, 0, 2):
        assert_close(DIAGONAL, TOLERANCES[dtype], lambda a, b, k=shift: diag_part(a @ b, k=k), a, b)


SPECIAL = special(np.random.default_rng(0).normal(size=(20, 30)), [np.nan, np.inf, -np.inf, -0.0])


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("function", [reshaped, padded])
def test_views_are_exact(function: Callable[..., Any], dtype: str) -> None:
    assert_same_bits(DIAGONAL, function, tf.cast(SPECIAL, dtype))


def test_elements_are_exact() -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        masked = tf.where(x > y, tf.abs(x), y[0] * x)
        turned = tf.transpose(masked)
        return diag_part(tf.clip_by_value(turned, -9, 9) + tf.reduce_max(x, 1))

    assert_same_bits(DIAGONAL, function, SPECIAL[:, :20], SPECIAL[::-1, :20].copy())


def test_nan_and_inf_in_a_product_go_where_they_went() -> None:
    a = SPECIAL[:, :5].astype(np.float32)
    assert_close(DIAGONAL, 1e-6, lambda a: diag_part(a @ tf.transpose(a)), a)


def test_numbers_of_a_kernel_diagonal() -> None:
    x = np.random.default_rng(0).normal(size=(9, 4))
    assert_close(DIAGONAL, 1e-15, kernel_diagonal, x, np.arange(1.0, 5.0))
