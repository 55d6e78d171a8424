"""Triangular solves in chains: products with inverses, which can be moved past."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.ops.makers import dot
from tests.hlo.running import run
from tests.rewrite.numpy_products import evaluate
from tests.rewrite.rewriting import assert_close, reasons, rewritten, shown
from tests.split.planning import floats
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.op import Symbol
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.chain import CHAIN
from tf_memsafe.rewrite.driver import apply

cholesky_solve, solve = tf.linalg.cholesky_solve, tf.linalg.triangular_solve
turned = tf.linalg.matrix_transpose
L, A, V = floats(9, 9), floats(9, 7), floats(7, 1)


def lines(function: Callable[..., tf.Tensor], *specs: tf.TensorSpec) -> list[str]:
    """The products and solves that are left, without what all of these have."""
    text = shown(rewritten(CHAIN, function, *specs).graph)
    kept = (line.partition(" = ")[2] for line in text if "dot" in line or "solve" in line)
    return [
        line.replace("left_side=True ", "").replace("unit_diagonal=False ", "") for line in kept
    ]


def test_a_vector_is_multiplied_before_the_solve() -> None:
    assert lines(lambda t, a, v: solve(t, a) @ v, L, A, V) == [
        "dot_general(%2, %3) contract [1]x[0] : f32[9,1]",
        "triangular_solve(%1, %4) lower=True NO_TRANSPOSE : f32[9,1]",
    ]


def test_a_solve_for_fewer_columns_is_done_before_the_product() -> None:
    specs = L, floats(9, 2), floats(2, 7)
    assert lines(lambda t, a, b: solve(t, a @ b, lower=False), *specs) == [
        "triangular_solve(%1, %2) lower=False NO_TRANSPOSE : f32[9,2]",
        "dot_general(%4, %3) contract [1]x[0] : f32[9,7]",
    ]


def test_a_row_vector_is_solved_for_in_place_of_a_matrix() -> None:
    specs = L, A, floats(9, 1)
    assert lines(lambda t, a, v: tf.transpose(v) @ solve(t, a), *specs) == [
        "triangular_solve(%1, %3) lower=True ADJOINT : f32[9,1]",
        "dot_general(%4, %2) contract [0]x[0] : f32[1,7]",
    ]


def test_both_solves_with_a_cholesky_factor_are_moved_past() -> None:
    assert lines(lambda k, a, v: cholesky_solve(tf.linalg.cholesky(k), a) @ v, L, A, V) == [
        "dot_general(%2, %3) contract [1]x[0] : f32[9,1]",
        "triangular_solve(%11, %12) lower=True NO_TRANSPOSE : f32[9,1]",
        "triangular_solve(%11, %13) lower=True ADJOINT : f32[9,1]",
    ]


def test_a_product_with_a_cholesky_factor() -> None:
    assert lines(lambda k, a, v: (tf.linalg.cholesky(k) @ a) @ v, L, A, V) == [
        "dot_general(%2, %3) contract [1]x[0] : f32[9,1]",
        "dot_general(%11, %12) contract [1]x[0] : f32[9,1]",
    ]


def test_solves_of_both_factors_of_a_product() -> None:
    specs = L, A, floats(9, 1)
    assert lines(lambda t, a, v: turned(solve(t, a)) @ solve(t, v), *specs) == [
        "triangular_solve(%1, %3) lower=True NO_TRANSPOSE : f32[9,1]",
        "triangular_solve(%1, %4) lower=True ADJOINT : f32[9,1]",
        "dot_general(%2, %5) contract [0]x[0] : f32[7,1]",
    ]


def test_a_scalar_is_moved_past_a_solve() -> None:
    result = rewritten(CHAIN, lambda t, a, v: solve(t, a) / 3.0 @ v, L, A, V)
    assert "divide(%3, %5) : f32[7,1]" in shown(result.graph)[3]


# --- x^T L^-T L^-1 x ----------------------------------------------------------------------------


def test_of_a_quadratic_form_one_half_is_computed() -> None:
    for x in (A, floats(9, 1)):
        columns = x.shape[1]
        assert lines(lambda t, x: turned(x) @ cholesky_solve(t, x), L, x) == [
            f"triangular_solve(%1, %2) lower=True NO_TRANSPOSE : f32[9,{columns}]",
            f"dot_general(%3, %3) contract [0]x[0] : f32[{columns},{columns}]",
        ]


def test_a_quadratic_form_of_vectors_and_one_of_a_stack() -> None:
    def function(t: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        return 2.5 * tf.tensordot(x, cholesky_solve(t, x[:, None])[:, 0], 1)

    assert lines(function, L, floats(9))[1:] == ["dot_general(%5, %5) contract [0]x[0] : f32[1,1]"]
    stack = floats(4, 9, 9), floats(4, 9, 3)
    assert lines(lambda t, x: turned(x) @ cholesky_solve(t, x), *stack)[1:] == [
        "dot_general(%3, %3) batch [0]x[0] contract [1]x[1] : f32[4,3,3]"
    ]


@pytest.mark.parametrize(
    "function",
    [
        lambda t, x: turned(x) @ solve(t, solve(t, x)),  # not L^-T
        lambda t, x: turned(x + 1) @ cholesky_solve(t, x),
        lambda t, x: x[:2] @ cholesky_solve(t, x)[:7],
    ],
)
def test_what_is_no_quadratic_form(function: Callable[..., tf.Tensor]) -> None:
    assert not rewritten(CHAIN, function, L, A).rewrites


def test_a_quadratic_form_with_a_transposed_factor() -> None:
    def function(t: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        return turned(x) @ solve(turned(t), solve(t, x), lower=False)

    for specs in ((L, A), (floats(4, 9, 9), floats(4, 9, 3))):
        assert lines(function, *specs)[0].startswith("triangular_solve(%1, %2) lower=True NO_TRANS")


# --- refusals -----------------------------------------------------------------------------------


def test_a_solve_that_others_use_is_there_already() -> None:
    def function(t: tf.Tensor, a: tf.Tensor, v: tf.Tensor) -> list[tf.Tensor]:
        solved = solve(t, a)
        return [tf.exp(solved), solved @ v]

    result = rewritten(CHAIN, function, L, A, V)
    assert not result.rewrites
    assert reasons(result)["reassociate"] == "no order of the 3 factors takes less"


def test_inverses_are_not_multiplied_with_each_other() -> None:
    result = rewritten(CHAIN, lambda t, a: solve(t, cholesky_solve(t, a)), L, floats(9, 900))
    assert not result.rewrites


@pytest.mark.parametrize(
    "function",
    [
        lambda t, a, v: tf.tanh(solve(t, a)) @ v,
        lambda t, a, v: solve(t, tf.tanh(a @ v)),
        lambda t, a, v: solve(tf.matmul(t, t), a @ v),
        lambda t, a, v: solve(-t, a @ v),
    ],
)
def test_other_programs_are_left_alone(function: Callable[..., tf.Tensor]) -> None:
    assert not rewritten(CHAIN, function, L, A, V).rewrites


# --- numbers ------------------------------------------------------------------------------------


def all_solves(triangle: Node, tall: Node) -> Iterator[Node]:
    """Solves for [2, 5, 6] matrices, in all ways to write one."""
    wide, across = (build.emit("transpose", (x,), TURNED) for x in (tall, triangle))
    for left, lower, how, given in product((True, False), (True, False), HOW, (triangle, across)):
        attributes = {
            "left_side": left,
            "lower": lower,
            "unit_diagonal": lower,
            "transpose_a": Symbol("transpose", how),
        }
        yield build.emit("triangular_solve", (given, tall if left else wide), attributes)


TURNED = {"permutation": (0, 2, 1)}
HOW = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")


def with_vectors(solved: Node, vectors: dict[int, Node]) -> Iterator[Node]:
    """The product with a row vector, and the product with a column vector."""
    for axis in (1, 2):
        numbers = dot((0,), (0,), (axis,), (1,))
        yield build.emit("dot_general", (solved, vectors[solved.shape[axis]]), numbers)


@pytest.mark.parametrize("dtype", ["f64", "complex<f64>"])
def test_all_solves_from_both_sides(dtype: str) -> None:
    shapes = (2, 5, 5), (2, 5, 6), (2, 5, 1), (2, 6, 1)
    parameters = build.region_parameters([TensorType(dtype, shape) for shape in shapes])
    triangle, tall, *vectors = parameters
    by_size = {vector.shape[1]: vector for vector in vectors}
    outputs = [
        result for solved in all_solves(triangle, tall) for result in with_vectors(solved, by_size)
    ]
    # Each alone: together they would share the solves.
    found = [apply(CHAIN, Graph(parameters, (output,))) for output in outputs]
    assert all(len(each.rewrites) == 1 for each in found)
    arguments = random_arguments(dtype, shapes)
    got = run(Graph(parameters, tuple(each.graph.outputs[0] for each in found)), arguments)
    expected = evaluate(Graph(parameters, tuple(outputs)), arguments)
    for ours, theirs in zip(got, expected, strict=True):
        # Well-conditioned triangles of 5 rows: a few units of rounding.
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12 * np.abs(theirs).max())


def random_arguments(dtype: str, shapes: Iterable[tuple[int, ...]]) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    arguments = [generator.normal(size=shape) for shape in shapes]
    if dtype.startswith("complex"):
        arguments = [each + 1j * generator.normal(size=each.shape) for each in arguments]
    arguments[0] += 3 * np.eye(5)
    return arguments


def test_numbers_of_a_quadratic_form() -> None:
    generator = np.random.default_rng(0)
    triangle, x = generator.normal(size=(2, 9, 9)) + 5 * np.eye(9), generator.normal(size=(2, 9, 4))
    assert_close(CHAIN, 1e-14, lambda t, x: -turned(x) @ cholesky_solve(t, x) / 3.0, triangle, x)


def test_numbers_where_only_the_inverse_is_of_a_stack() -> None:
    generator = np.random.default_rng(0)
    triangle = generator.normal(size=(4, 9, 9)) + 5 * np.eye(9)
    a, b = generator.normal(size=(9, 2)), generator.normal(size=(4, 2, 7))

    def function(t: tf.Tensor, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return solve(t, tf.einsum("ij,bjk->bik", a, b))

    assert_close(CHAIN, 1e-14, function, triangle, a, b)


def test_a_triangle_with_a_zero_on_its_diagonal_gives_no_finite_numbers_either_way() -> None:
    generator = np.random.default_rng(0)
    triangle = generator.normal(size=(9, 9)) + 5 * np.eye(9)
    triangle[4, 4] = 0
    a, v = generator.normal(size=(9, 7)), generator.normal(size=(7, 1))
    before = solve(triangle, a) @ v
    after = solve(triangle, a @ v)
    np.testing.assert_array_equal(np.isfinite(before), np.isfinite(after))
