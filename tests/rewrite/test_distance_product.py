"""Distances that were written as matrix products, of points of few coordinates."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gpflow.utilities.ops import square_distance

from tests.rewrite.distances import Function, exact, naive, points, squares
from tests.rewrite.rewriting import both, reasons, rewritten, rules, shown
from tests.split.planning import floats
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.distance import DISTANCE
from tf_memsafe.rewrite.distance_size import LARGEST_DIFFERENCE
from tf_memsafe.rewrite.driver import apply
from tf_memsafe.rewrite.maths import dot, filled, sum_over


def product(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.matmul(x, y, transpose_b=True)


def written(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return squares(x)[:, None] + squares(y)[None] - 2 * product(x, y)


def test_the_product_form() -> None:
    result = rewritten(DISTANCE, written, floats(50, 3), floats(40, 3))
    assert rules(result) == ["product_form"]
    assert shown(result.graph) == [
        "graph(%1: f32[50,3], %2: f32[40,3]):",
        "%3 = broadcast_in_dim(%1) broadcast_dimensions=[0,2] : f32[50,40,3]",
        "%4 = broadcast_in_dim(%2) broadcast_dimensions=[1,2] : f32[50,40,3]",
        "%5 = subtract(%3, %4) : f32[50,40,3]",
        "%6 = multiply(%5, %5) : f32[50,40,3]",
        "%7 = constant() 0.0 : f32[]",
        "%8 = reduce(%6, %7) dimensions=[2] : f32[50,40]",
        "return %8",
    ]


SPELLINGS: dict[str, Function] = {
    "as written": written,
    "clamped": lambda x, y: tf.maximum(written(x, y), 0.0),
    "keepdims": lambda x, y: (
        tf.reduce_sum(x**2, 1, keepdims=True)
        + tf.transpose(tf.reduce_sum(tf.square(y), 1, keepdims=True))
        - 2 * x @ tf.transpose(y)
    ),
    "-2 first": lambda x, y: -2 * product(x, y) + (squares(x)[:, None] + squares(y)),
    "-2 inside": lambda x, y: product(-2 * x, y) + squares(x)[:, None] + squares(y),
    "subtracted": lambda x, y: squares(x)[:, None] - (2 * product(x, y) - squares(y)),
    "einsum": lambda x, y: (
        tf.einsum("nd,nd->n", x, x)[:, None]
        + tf.einsum("md,md->m", y, y)[None]
        - 2 * tf.einsum("nd,md->nm", x, y)
    ),
    "negative": lambda x, y: -(2 * product(x, y) - squares(x)[:, None] - squares(y)),
    "half": lambda x, y: (
        -2 * (product(x, y) - 0.5 * squares(x)[:, None] - tf.math.divide(squares(y), 2))
    ),
    "tensordot": lambda x, y: (
        squares(x)[:, None] + squares(y) - 2 * tf.tensordot(x, y, [[-1], [-1]])
    ),
    "GPflow": square_distance,
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings(spelling: str) -> None:
    function = SPELLINGS[spelling]
    result = rewritten(DISTANCE, function, floats(50, 3), floats(40, 3))
    assert rules(result) == ["product_form"]
    assert not any("dot_general" in line for line in shown(result.graph))
    # The product form has lost half of its digits here; the differences have not.
    x, y = points(50, 3, offset=1e4), points(40, 3, offset=1e4)
    ((got, _),) = both(DISTANCE, function, x, y)
    np.testing.assert_allclose(got, exact(x, y), rtol=1e-6)


def test_points_with_themselves() -> None:
    result = rewritten(DISTANCE, lambda x: square_distance(x, None), floats(50, 3))
    assert rules(result) == ["product_form"]
    x = points(50, 3, offset=1e4)
    ((got, _),) = both(DISTANCE, lambda x: square_distance(x, None), x)
    np.testing.assert_allclose(got, exact(x, x), rtol=1e-6)
    assert (np.diag(got) == 0).all()


@pytest.mark.parametrize(("of_x", "of_y"), [((3,), (3,)), ((3,), ()), ((), (3,)), ((2, 3), (4,))])
def test_leading_batch_dimensions(of_x: tuple[int, ...], of_y: tuple[int, ...]) -> None:
    specs = floats(*of_x, 50, 3), floats(*of_y, 40, 3)
    assert rules(rewritten(DISTANCE, square_distance, *specs)) == ["product_form"]
    x, y = points(*of_x, 50, 3), points(*of_y, 40, 3)
    ((got, plain),) = both(DISTANCE, square_distance, x, y)
    np.testing.assert_allclose(got, plain, rtol=0, atol=1e-5)


def test_a_batch() -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return squares(x)[..., None] + squares(y)[:, None] - 2 * product(x, y)

    assert rules(rewritten(DISTANCE, function, floats(2, 50, 3), floats(2, 40, 3))) == [
        "product_form"
    ]
    x, y = points(2, 50, 3), points(2, 40, 3)
    ((got, _),) = both(DISTANCE, function, x, y)
    np.testing.assert_allclose(got, np.stack(list(map(exact, x, y))), rtol=1e-5)


def test_scaled_points() -> None:
    def function(x: tf.Tensor, y: tf.Tensor, scales: tf.Tensor) -> tf.Tensor:
        return tf.exp(-0.5 * square_distance(x / scales, y / scales))

    result = rewritten(DISTANCE, function, floats(50, 3), floats(40, 3), floats(3))
    assert rules(result) == ["product_form"]


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_conversions_that_lose_nothing_are_seen_through(dtype: tf.DType) -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return written(*(tf.cast(points, tf.float32) for points in (x, y)))

    specs = tf.TensorSpec((50, 3), dtype), tf.TensorSpec((40, 3), dtype)
    assert rules(rewritten(DISTANCE, function, *specs)) == ["product_form"]


# --- refusals -----------------------------------------------------------------------------------


def test_many_dimensions_are_refused() -> None:
    most = LARGEST_DIFFERENCE
    assert rewritten(DISTANCE, written, floats(50, most), floats(40, most)).rewrites
    result = rewritten(DISTANCE, written, floats(50, most + 1), floats(40, most + 1))
    assert not result.rewrites
    assert reasons(result)["product_form"] == "in 5 dimensions the product is not slower"


def test_no_form_is_made_of_the_other_and_back() -> None:
    for dimension in range(1, 10):
        for function in (naive, written):
            specs = floats(50, dimension), floats(40, dimension)
            assert len(rewritten(DISTANCE, function, *specs).rewrites) <= 1


USED: dict[str, Function] = {
    "the product": lambda x, y: [written(x, y), product(x, y)],
    "the product, by a user": lambda x, y: written(x, y) + tf.exp(product(x, y)),
    "twice the product": lambda x, y: [written(x, y), tf.exp(2 * product(x, y))],
}


@pytest.mark.parametrize("name", USED)
def test_a_product_that_is_used_is_kept(name: str) -> None:
    result = rewritten(DISTANCE, USED[name], floats(50, 3), floats(40, 3))
    assert not result.rewrites
    assert "something else uses the product" in reasons(result)["product_form"]


def test_half_precision_is_refused() -> None:
    x, y = build.region_parameters([TensorType("f16", (50, 3)), TensorType("f16", (40, 3))])
    norms = [
        build.broadcast(sum_over(build.multiply(side, side), (1,)), (50, 40), (axis,))
        for axis, side in enumerate((x, y))
    ]
    twice = build.multiply(filled(2, x, (50, 40)), dot(x, y, DotNumbers((), (), (1,), (1,))))
    distances = build.subtract(build.add(*norms), twice)
    result = apply(DISTANCE, Graph((x, y), (distances,)))
    assert reasons(result)["product_form"] == "f16 has too few digits for it"


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: squares(x)[:, None] + squares(y) - 3 * product(x, y),
        lambda x, y: squares(x)[:, None] - squares(y) - 2 * product(x, y),
        lambda x, y: squares(x)[:, None] + squares(y) + 2 * product(x, y),
        lambda x, y: squares(x)[:, None] + 2 * squares(y) - 2 * product(x, y),
        lambda x, y: squares(x)[:, None] + squares(y + 1) - 2 * product(x, y),
        lambda x, y: squares(x[:40])[:, None] + squares(y) - 2 * product(y, x[:40]),
        lambda x, y: squares(x)[:, None] - 2 * product(x, y),
        lambda x, y: tf.reduce_sum(x**3, -1)[:, None] + squares(y) - 2 * product(x, y),
        lambda x, y: x[:, :1] + y[:, 0] - 2 * product(x, y),
    ],
)
def test_what_is_no_distance_is_left_alone(function: Function) -> None:
    result = rewritten(DISTANCE, function, floats(50, 3), floats(40, 3))
    assert not result.rewrites
    assert "product_form" not in reasons(result)


# --- numbers ------------------------------------------------------------------------------------


def test_nan_and_inf() -> None:
    x, y = points(50, 3), points(40, 3)
    x[0, 1], x[1, 1], y[5, 2] = np.nan, np.inf, -np.inf
    ((got, plain),) = both(DISTANCE, written, x, y)
    finite = np.isfinite(x).all(1)[:, None] & np.isfinite(y).all(1)
    np.testing.assert_allclose(got[finite], plain[finite], rtol=0, atol=1e-5)
    assert np.isnan(got[0]).all()
    # inf - inf was NaN.
    assert np.isinf(got[1]).all()
    assert np.isinf(got[1:, 5]).all()
