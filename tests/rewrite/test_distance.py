"""Squared distances, in every spelling people write, and their gradients, as matrix products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.rewrite.rewriting import both, reasons, rewritten, rules, shown, special
from tests.split.planning import floats
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.distance import DISTANCE, SMALLEST_DIMENSION
from tf_memsafe.rewrite.driver import Rewritten, apply
from tf_memsafe.rewrite.maths import sum_over

Function = Callable[..., Any]


def naive(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum((x[:, None] - y[None]) ** 2, -1)


def scaled(x: tf.Tensor, y: tf.Tensor, scales: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.square((x[:, None] - y[None]) / scales), -1)


def gradients(function: Function) -> Function:
    """The gradients, to each argument, of the sum of a Gaussian kernel of distances."""

    def compute(*arguments: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            value = tf.reduce_sum(tf.exp(-0.1 * function(*arguments)))
        return tape.gradient(value, arguments)

    return compute


def largest(result: Rewritten) -> int:
    """Elements of the largest tensor."""
    return max(type_.size for node in topological(result.graph.outputs) for type_ in node.results)


def points(*shape: int, offset: float = 0, dtype: str = "float32") -> np.ndarray:
    values = np.random.default_rng(sum(shape)).normal(size=shape) + offset
    return values.astype(dtype)


def exact(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The distances of these very numbers, in f64."""
    return ((x[:, None].astype(np.float64) - y[None].astype(np.float64)) ** 2).sum(-1)


# --- distances ----------------------------------------------------------------------------------


def test_a_naive_distance() -> None:
    result = rewritten(DISTANCE, naive, floats(50, 7), floats(40, 7))
    lines = shown(result.graph)
    assert "%7 = reduce(%6, %4) dimensions=[0] : f32[7]" in lines  # the mean of y
    assert lines[-4:] == [
        "%43 = add(%33, %42) : f32[50,40]",
        "%44 = broadcast_in_dim(%4) broadcast_dimensions=[] : f32[50,40]",
        "%45 = maximum(%43, %44) : f32[50,40]",
        "return %45",
    ]
    assert "%42 = dot_general(%39, %41) contract [1]x[1] : f32[50,40]" in lines
    (fired,) = result.rewrites
    assert (fired.bytes_before, fired.bytes_after) == (56_000, 8_000)


SPELLINGS: dict[str, Function] = {
    "squared_difference": lambda x, y: tf.reduce_sum(
        tf.math.squared_difference(x[:, None], y[None]), -1
    ),
    "expand_dims": lambda x, y: tf.reduce_sum(
        tf.square(tf.expand_dims(x, 1) - tf.expand_dims(y, 0)), 2
    ),
    "product": lambda x, y: tf.reduce_sum((x[:, None] - y[None]) * (x[:, None] - y[None]), -1),
    "tile": lambda x, y: tf.reduce_sum(
        (tf.tile(x[:, None], [1, 40, 1]) - tf.tile(y[None], [50, 1, 1])) ** 2, 2
    ),
    "broadcast_to": lambda x, y: tf.reduce_sum(
        (tf.broadcast_to(x[:, None], [50, 40, 7]) - tf.broadcast_to(y[None], [50, 40, 7])) ** 2, 2
    ),
    "einsum": lambda x, y: tf.einsum("nmd,nmd->nm", x[:, None] - y[None], x[:, None] - y[None]),
    "norm": lambda x, y: tf.norm(x[:, None] - y[None], axis=-1) ** 2,
    "first axis": lambda x, y: tf.reduce_sum(
        (tf.transpose(x)[:, :, None] - tf.transpose(y)[:, None]) ** 2, 0
    ),
    "half": lambda x, y: tf.reduce_sum(0.5 * (x[:, None] - y[None]) ** 2, -1) * 2,
    "mean": lambda x, y: tf.reduce_mean((x[:, None] - y[None]) ** 2, -1) * 7,
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings(spelling: str) -> None:
    result = rewritten(DISTANCE, SPELLINGS[spelling], floats(50, 7), floats(40, 7))
    assert rules(result) == ["squared_distance"]
    assert largest(result) == 50 * 40
    x, y = points(50, 7), points(40, 7)
    ((got, _),) = both(DISTANCE, SPELLINGS[spelling], x, y)
    np.testing.assert_allclose(got, exact(x, y), rtol=1e-5)


@pytest.mark.parametrize("scales", [(7,), ()])
def test_lengthscales(scales: tuple[int, ...]) -> None:
    assert rules(rewritten(DISTANCE, scaled, floats(50, 7), floats(40, 7), floats(*scales))) == [
        "squared_distance"
    ]
    x, y = points(50, 7, offset=100), points(40, 7, offset=100)
    lengths = np.full(scales, 0.5, np.float32)
    ((got, _),) = both(DISTANCE, scaled, x, y, lengths)
    np.testing.assert_allclose(got, 4 * exact(x, y), rtol=1e-5)


def test_batches() -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum((x[:, :, None] - y[:, None]) ** 2, -1)

    result = rewritten(DISTANCE, function, floats(3, 50, 7), floats(3, 40, 7))
    assert any(
        "batch [0]x[0] contract [2]x[2] : f32[3,50,40]" in line for line in shown(result.graph)
    )
    x, y = points(3, 50, 7), points(3, 40, 7)
    # Each of the batch has its own offset.
    x[1], y[1] = x[1] + 1e4, y[1] + 1e4
    ((got, _),) = both(DISTANCE, function, x, y)
    np.testing.assert_allclose(got, np.stack(list(map(exact, x, y))), rtol=1e-5)


# --- refusals -----------------------------------------------------------------------------------


def reason(function: Function, *specs: tf.TensorSpec) -> str:
    result = rewritten(DISTANCE, function, *(specs or (floats(50, 7), floats(40, 7))))
    assert not result.rewrites
    return reasons(result).get("squared_distance", "")


def test_few_dimensions_are_refused() -> None:
    dimension = SMALLEST_DIMENSION - 1
    assert "in 5 dimensions" in reason(naive, floats(50, dimension), floats(40, dimension))
    dimension += 1
    assert rewritten(DISTANCE, naive, floats(50, dimension), floats(40, dimension)).rewrites


def test_other_exponents_and_reducers_are_refused() -> None:
    def difference(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return x[:, None] - y[None]

    cube = reason(lambda x, y: tf.reduce_sum(difference(x, y) ** 3, -1))
    assert cube == "the exponent is 3.0, not 2"
    l1 = reason(lambda x, y: tf.reduce_sum(tf.abs(difference(x, y)), -1))
    assert l1 == "the differences are not squared"
    largest_coordinate = reason(lambda x, y: tf.reduce_max(difference(x, y) ** 2, -1))
    assert largest_coordinate == "the squares of the differences are not added up"


def test_weights_that_are_no_squares_are_refused() -> None:
    def function(x: tf.Tensor, y: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(w * (x[:, None] - y[None]) ** 2, -1)

    assert "not squares of scales" in reason(function, floats(50, 7), floats(40, 7), floats(7))


def test_half_precision_and_integers_are_refused() -> None:
    for dtype in ("f16", "i32"):
        x, y = build.region_parameters([TensorType(dtype, (50, 7)), TensorType(dtype, (40, 7))])
        shape = (50, 40, 7)
        wide = build.broadcast(x, shape, (0, 2)), build.broadcast(y, shape, (1, 2))
        square = build.multiply(build.subtract(*wide), build.subtract(*wide))
        result = apply(DISTANCE, Graph((x, y), (sum_over(square, (2,)),)))
        assert reasons(result)["squared_distance"] == f"{dtype} has too few digits for it"


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: tf.reduce_sum((x[:, None] + y[None]) ** 2, -1),
        lambda x, y: tf.reduce_sum((x - y[0]) ** 2, -1),
        lambda x, y: tf.reduce_sum((x[:, None] - tf.tanh(x[:, None] * y)) ** 2, -1),
        lambda x, y: tf.reduce_sum(tf.exp(x[:, None] - y[None]) ** 2, -1),
    ],
)
def test_what_is_no_distance_is_left_alone(function: Function) -> None:
    assert reason(function) == ""


# --- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [6, 16, 100])
@pytest.mark.parametrize("offset", [0, 1e4])
def test_a_common_offset_costs_no_digits(dimension: int, offset: float) -> None:
    x, y = (points(n, dimension, offset=offset) for n in (300, 200))
    ((got, _),) = both(DISTANCE, naive, x, y)
    np.testing.assert_allclose(got, exact(x, y), rtol=1e-5)


@pytest.mark.parametrize(("dtype", "rounding"), [("float32", 6e-8), ("float64", 1.1e-16)])
def test_points_are_at_no_distance_from_themselves(dtype: str, rounding: float) -> None:
    x = points(200, 20, offset=1e4, dtype=dtype)
    ((got, _),) = both(DISTANCE, lambda x: naive(x, x), x)
    norms = ((x - x.mean(0)) ** 2).sum(-1)
    # Two sums of 20 squares, in two orders.
    assert (np.diag(got) <= 20 * rounding * norms).all()
    assert (got >= 0).all()
    np.testing.assert_allclose(got, got.T, rtol=0, atol=20 * rounding * norms.max())


def test_nan_and_inf_stay_where_they_were() -> None:
    x, y = points(50, 7), points(40, 7)
    x[0, 1], x[1, 1], x[2, 2], y[5, 3] = np.nan, np.inf, -np.inf, np.nan
    ((got, plain),) = both(DISTANCE, naive, x, y)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(plain))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(plain))
    np.testing.assert_allclose(got, plain, rtol=1e-5)


def test_two_infinite_points_are_infinitely_apart() -> None:
    x, y = points(50, 7), points(40, 7)
    x[1, 1] = y[1, 1] = np.inf
    ((got, plain),) = both(DISTANCE, naive, x, y)
    assert np.isnan(plain[1, 1])
    assert got[1, 1] == np.inf
    plain[1, 1] = np.inf
    np.testing.assert_allclose(got, plain, rtol=1e-5)


# --- gradients ----------------------------------------------------------------------------------


def test_the_gradient_of_a_difference() -> None:
    def function(x: tf.Tensor, y: tf.Tensor, g: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(g[:, :, None] * (x[:, None] - y[None]), 1)

    result = rewritten(DISTANCE, function, floats(50, 7), floats(40, 7), floats(50, 40))
    assert rules(result) == ["sum_of_differences"]
    assert shown(result.graph)[-8:] == [
        "%23 = broadcast_in_dim(%22) broadcast_dimensions=[1] : f32[50,7]",  # the mean of y
        "%24 = subtract(%1, %23) : f32[50,7]",
        "%25 = multiply(%9, %24) : f32[50,7]",
        "%26 = broadcast_in_dim(%22) broadcast_dimensions=[1] : f32[40,7]",
        "%27 = subtract(%2, %26) : f32[40,7]",
        "%28 = dot_general(%3, %27) contract [1]x[0] : f32[50,7]",
        "%29 = subtract(%25, %28) : f32[50,7]",
        "return %29",
    ]


@pytest.mark.parametrize("function", [naive, scaled])
def test_no_tensor_of_all_differences_is_left(function: Function) -> None:
    specs = [floats(50, 7), floats(40, 7), floats(7)][: 2 if function is naive else 3]
    result = rewritten(DISTANCE, gradients(function), *specs)
    assert largest(result) == 50 * 40
    assert rules(result) == ["squared_distance", *["sum_of_differences"] * len(specs)]


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-5), ("float64", 1e-13)])
@pytest.mark.parametrize("offset", [0, 1e3])
@pytest.mark.parametrize("scales", [None, (7,), ()])
def test_numbers_of_gradients(
    dtype: str, tolerance: float, offset: float, scales: tuple[int, ...] | None
) -> None:
    arguments = [points(n, 7, offset=offset, dtype=dtype) for n in (50, 40)]
    function: Function = naive if scales is None else scaled
    if scales is not None:
        arguments.append(np.full(scales, 1.5, dtype))
    wide = [argument.astype(np.float64) for argument in arguments]
    expected = tf.function(gradients(function))(*wide)
    for (got, _), reference in zip(
        both(DISTANCE, gradients(function), *arguments), expected, strict=True
    ):
        scale = np.abs(reference).max()
        np.testing.assert_allclose(got, reference, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (
            lambda x, y, g: tf.reduce_sum(
                g[:, :, None] * (x[:, None] - y[None]) ** 2 * (x[:, None] - y[None]), 1
            ),
            "more than 2 differences",
        ),
        (
            lambda x, y, g: tf.reduce_sum(
                tf.sin(g[:, :, None] * y[None]) * (x[:, None] - y[None]), 1
            ),
            "vary along all axes",
        ),
        (
            lambda x, y, g: tf.reduce_sum(g[:, :, None] * (x[:, None, :3] - y[None, :, :3]), 1),
            "in 3 dimensions",
        ),
    ],
)
def test_gradients_that_are_refused(function: Function, expected: str) -> None:
    result = rewritten(DISTANCE, function, floats(50, 7), floats(40, 7), floats(50, 40))
    assert not result.rewrites
    assert expected in reasons(result)["sum_of_differences"]


def test_nan_in_a_gradient_goes_where_it_went() -> None:
    x = special(points(50, 7), [np.nan])
    for got, plain in both(DISTANCE, gradients(naive), x, points(40, 7)):
        np.testing.assert_array_equal(np.isnan(got), np.isnan(plain))
        np.testing.assert_allclose(got, plain, rtol=1e-4, atol=1e-4)
