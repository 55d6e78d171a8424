"""The diagonal of a product without the product, and products with diagonal matrices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.rewrite.rewriting import assert_close, both, largest, reasons, rewritten, special, tidied
from tests.split.planning import floats
from tf_memsafe.rewrite.diagonal import DIAGONAL

diag, diag_part, trace = tf.linalg.diag, tf.linalg.diag_part, tf.linalg.trace
A, B = floats(50, 5), floats(5, 50)


def test_the_diagonal_of_a_product() -> None:
    assert tidied(DIAGONAL, lambda a, b: diag_part(a @ b), A, B) == [
        "graph(%1: f32[50,5], %2: f32[5,50]):",
        "%3 = transpose(%2) permutation=[1,0] : f32[50,5]",
        "%4 = multiply(%1, %3) : f32[50,5]",
        "%5 = constant() 0.0 : f32[]",
        "%6 = reduce(%4, %5) dimensions=[1] : f32[50]",
        "return %6",
    ]


def test_the_trace_of_a_product() -> None:
    result = tidied(DIAGONAL, lambda a, b: trace(a @ b), A, B)
    assert result[-2] == "%10 = reduce(%6, %5) dimensions=[0] : f32[]"


def test_another_diagonal_of_each_of_a_stack_of_wide_products() -> None:
    def function(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return diag_part(a @ b, k=-2)

    assert tidied(DIAGONAL, function, floats(3, 50, 5), floats(3, 5, 60))[1:4] == [
        "%3 = slice(%1) start_indices=[0,2,0] limit_indices=[3,50,5] strides=[1,1,1] : f32[3,48,5]",
        "%4 = slice(%2) start_indices=[0,0,0] limit_indices=[3,5,48] strides=[1,1,1] : f32[3,5,48]",
        "%5 = transpose(%4) permutation=[0,2,1] : f32[3,48,5]",
    ]


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: diag_part(tf.transpose(a @ b)),
        lambda a, b: diag_part(tf.matmul(b, a, transpose_a=True, transpose_b=True)),
        lambda a, b: 2.5 * diag_part(-(a @ b)),
        lambda a, b: tf.einsum("ii->i", a @ b),
        lambda a, b: tf.einsum("ii->", a @ b),
        lambda a, b: tf.linalg.tensor_diag_part(a @ b),
        lambda a, b: tf.gather_nd(a @ b, [[i, i] for i in range(50)]),
        lambda a, b: tf.gather_nd(a @ b, [[i + 3, i] for i in range(40)]),
        lambda a, b: trace(a @ b + tf.eye(50)),
        lambda a, b: diag_part(a @ (b @ a) @ b),
    ],
)
def test_other_spellings(function: Callable[..., tf.Tensor]) -> None:
    assert largest(rewritten(DIAGONAL, function, A, B)) == 250


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda a, b: diag_part(a @ b), ((3, 50, 5), (5, 60))),
        (lambda a, b: diag_part(a @ b), ((50, 5), (3, 5, 60))),
        (lambda a, b: diag_part(a @ b, k=-4), ((3, 60, 5), (5, 50))),
        (lambda a, b: tf.einsum("bii->bi", a @ b), ((3, 50, 5), (3, 5, 50))),
        (lambda a, b: tf.einsum("bii->b", a @ b), ((3, 50, 5), (5, 50))),
        (lambda a, b: trace(a @ b), ((2, 1, 50, 5), (3, 5, 60))),
        (lambda a, b: trace(tf.linalg.matrix_transpose(a @ b)), ((3, 50, 5), (3, 5, 60))),
    ],
)
def test_stacks(function: Callable[..., tf.Tensor], shapes: tuple[tuple[int, ...], ...]) -> None:
    generator = np.random.default_rng(0)
    a, b = (generator.normal(size=shape) for shape in shapes)
    # The sum of 5 products, and of 50 of those for a trace.
    assert_close(DIAGONAL, 1e-14, function, a, b)
    specs = [tf.TensorSpec(shape, tf.float64) for shape in shapes]
    assert largest(rewritten(DIAGONAL, function, *specs)) <= max(a.size, b.size, 6 * 50 * 5)


# --- diagonal matrices --------------------------------------------------------------------------


def test_a_diagonal_matrix_is_not_made_whole() -> None:
    assert tidied(DIAGONAL, lambda d, b: diag(d) @ b, floats(50), floats(50, 7))[1:-1] == [
        "%3 = broadcast_in_dim(%1) broadcast_dimensions=[0] : f32[50,7]",
        "%4 = multiply(%3, %2) : f32[50,7]",
    ]
    stack = floats(3, 50), floats(3, 7, 50)
    assert tidied(DIAGONAL, lambda d, b: b @ diag(d), *stack)[1:-1] == [
        "%3 = broadcast_in_dim(%1) broadcast_dimensions=[0,2] : f32[3,7,50]",
        "%4 = multiply(%3, %2) : f32[3,7,50]",
    ]


def gradients(value: Callable[..., tf.Tensor]) -> Callable[..., list[tf.Tensor]]:
    def function(*arguments: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            result = tf.reduce_sum(value(*arguments) ** 2)
        return tape.gradient(result, arguments)

    return function


@pytest.mark.parametrize(
    ("value", "shapes"),
    [
        (lambda a, b: diag_part(a @ b), ((50, 5), (5, 50))),
        (lambda a, b: diag_part(a @ b), ((3, 50, 5), (3, 5, 60))),
        (lambda a, b: diag_part(a @ b), ((3, 60, 5), (5, 50))),
        (lambda a, b: trace(a @ b), ((3, 50, 5), (3, 5, 50))),
        (lambda a, b: tf.linalg.tensor_diag_part(a @ b), ((50, 5), (5, 50))),
    ],
)
def test_gradients_need_no_matrix(
    value: Callable[..., tf.Tensor], shapes: tuple[tuple[int, ...], ...]
) -> None:
    generator = np.random.default_rng(0)
    arguments = [generator.normal(size=shape) for shape in shapes]
    assert_close(DIAGONAL, 1e-14, gradients(value), *arguments)
    specs = [tf.TensorSpec(shape, tf.float64) for shape in shapes]
    assert largest(rewritten(DIAGONAL, gradients(value), *specs)) <= 3 * 60 * 5


@pytest.mark.parametrize(
    "function",
    [
        lambda d, b: diag(d, k=1) @ tf.pad(b, [[0, 1], [0, 0]]),
        lambda d, b: tf.tanh(diag(d)) @ b,
        lambda d, b: tf.einsum("ij,ij->", diag(d), b @ tf.transpose(b)),
        lambda d, b: diag(d, padding_value=1) @ b,
    ],
)
def test_other_matrices_are_left_alone(function: Callable[..., tf.Tensor]) -> None:
    assert not rewritten(DIAGONAL, function, floats(9), floats(9, 7)).rewrites


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda a, b: diag_part(a @ b, k=(-1, 1)), "not those of one diagonal"),
        (lambda a, b: tf.gather_nd(a @ b, [[0, 1], [1, 3]]), "not those of one diagonal"),
        (lambda a, b: diag_part(tf.einsum("ij,jk->kij", a, b)[0]), None),
        (lambda a, b: diag_part(tf.einsum("ij,kl->ijkl", a, b)), "of one factor"),
        (lambda a, b: diag_part(tf.einsum("ij,ik->kji", a, tf.transpose(b))), "of the stack"),
    ],
)
def test_what_looks_like_a_diagonal_of_a_product(
    function: Callable[..., tf.Tensor], reason: str | None
) -> None:
    refused = reasons(rewritten(DIAGONAL, function, A, B))
    assert reason is None or reason in refused["diagonal_of_product"]


# --- numbers ------------------------------------------------------------------------------------

TOLERANCES = {"float32": 1e-6, "float64": 1e-15, "float16": 1e-3, "bfloat16": 1e-2, "int32": 0.0}
"""Rounding of sums of 5 terms, in another order; half precision adds up in 32 bits either way."""


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_numbers_of_products(dtype: str) -> None:
    generator = np.random.default_rng(0)
    a, b = (tf.cast(3 * generator.normal(size=shape), dtype) for shape in ((2, 9, 5), (2, 5, 7)))
    for shift in (-3, 0, 2):
        assert_close(DIAGONAL, TOLERANCES[dtype], lambda a, b, k=shift: diag_part(a @ b, k=k), a, b)


def test_small_integers_are_added_up_as_wide_as_the_result() -> None:
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-128, 128, size=s).astype(np.int8) for s in ((9, 50), (50, 9)))

    def function(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return diag_part(tf.linalg.matmul(a, b, output_type=tf.int32))

    assert_close(DIAGONAL, 0.0, function, a, b)


def test_nan_and_inf_in_a_product_go_where_they_went() -> None:
    a = special(np.random.default_rng(0).normal(size=(20, 5)), [np.nan, np.inf, -np.inf, -0.0])
    for function in (diag_part, lambda x: tf.einsum("ii->i", x)):
        assert_close(DIAGONAL, 1e-15, lambda a, f=function: f(a @ tf.transpose(a)), a)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_a_product_with_a_diagonal_matrix_is_exact(dtype: str) -> None:
    generator = np.random.default_rng(0)
    d, b = (tf.cast(3 * generator.normal(size=shape), dtype) for shape in ((2, 9), (2, 9, 5)))
    assert_close(DIAGONAL, 0.0, lambda d, b: diag(d) @ b, d, b)


def test_what_is_not_finite_stays_in_its_row() -> None:
    b = special(np.ones((5, 4)), [np.nan, np.inf])
    ((got, expected),) = both(DIAGONAL, lambda d, b: diag(d) @ b, np.arange(1.0, 6.0), b)
    assert np.isnan(expected[:, :2]).sum() == 9  # all but the infinity itself
    np.testing.assert_array_equal(got, np.arange(1.0, 6.0)[:, None] * b)
