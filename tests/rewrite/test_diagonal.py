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
    largest,
    reasons,
    rewritten,
    rules,
    special,
    tidied,
)
from tests.split.planning import floats
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.diagonal import DIAGONAL
from tf_memsafe.rewrite.diagonal_gather import Diagonal
from tf_memsafe.rewrite.driver import apply

diag_part = tf.linalg.diag_part


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
    return diag_part(tf.pad(x, [[1, 1], [0, 0]]), k=-1)


def test_the_diagonal_of_a_view_can_be_cut() -> None:
    assert tidied(DIAGONAL, padded, floats(5, 7))[1:] == [
        "%2 = iota() iota_dimension=0 : i32[7,7]",
        "%3 = constant() -1 : i32[]",
        "%4 = broadcast_in_dim(%3) broadcast_dimensions=[] : i32[7,7]",
        "%5 = add(%2, %4) : i32[7,7]",
        "%6 = iota() iota_dimension=1 : i32[7,7]",
        "%7 = compare(%5, %6) EQ : i1[7,7]",
        "%8 = constant() 0.0 : f32[]",
        "%9 = pad(%1, %8) edge_padding_low=[1,0] edge_padding_high=[1,0] interior_padding=[0,0]"
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


def test_numbers_of_a_kernel_diagonal() -> None:
    x = np.random.default_rng(0).normal(size=(9, 4))
    assert_close(DIAGONAL, 1e-15, kernel_diagonal, x, np.arange(1.0, 5.0))
