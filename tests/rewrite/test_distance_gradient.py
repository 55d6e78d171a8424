"""Gradients of distances, and sums of sines: no tensor of all differences is left."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.rewrite.distances import Function, gradients, largest, naive, points, scaled
from tests.rewrite.rewriting import both, reasons, rewritten, rules, shown, special
from tests.split.planning import floats
from tf_memsafe.rewrite.distance import DISTANCE


def test_the_gradient_of_a_difference() -> None:
    def function(x: tf.Tensor, y: tf.Tensor, g: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(g[:, :, None] * (x[:, None] - y[None]), 1)

    result = rewritten(DISTANCE, function, floats(50, 7), floats(40, 7), floats(50, 40))
    assert rules(result) == ["sum_of_differences"]
    assert shown(result.graph)[-8:] == [
        "%26 = broadcast_in_dim(%25) broadcast_dimensions=[1] : f32[50,7]",  # the mean of y
        "%27 = subtract(%1, %26) : f32[50,7]",
        "%28 = multiply(%9, %27) : f32[50,7]",
        "%29 = broadcast_in_dim(%25) broadcast_dimensions=[1] : f32[40,7]",
        "%30 = subtract(%2, %29) : f32[40,7]",
        "%31 = dot_general(%3, %30) contract [1]x[0] : f32[50,7]",
        "%32 = subtract(%28, %31) : f32[50,7]",
        "return %32",
    ]


@pytest.mark.parametrize("dimension", [2, 3, 5])
def test_in_few_dimensions_distances_stay_and_their_gradients_do_not(dimension: int) -> None:
    specs = floats(50, dimension), floats(40, dimension)
    result = rewritten(DISTANCE, gradients(naive), *specs)
    assert rules(result) == ["sum_of_differences"] * 2
    arguments = [points(n, dimension, offset=1e3, dtype="float64") for n in (50, 40)]
    for got, plain in both(DISTANCE, gradients(naive), *arguments):
        np.testing.assert_allclose(got, plain, rtol=0, atol=1e-12 * np.abs(plain).max())


@pytest.mark.parametrize("function", [naive, scaled])
def test_no_tensor_of_all_differences_is_left(function: Function) -> None:
    specs = [floats(50, 7), floats(40, 7), floats(7)][: 2 if function is naive else 3]
    result = rewritten(DISTANCE, gradients(function), *specs)
    assert largest(result) == 50 * 40
    assert rules(result) == ["squared_distance", *["sum_of_differences"] * len(specs)]


@pytest.mark.parametrize("power", [1, 2])
def test_nor_is_one_of_norms(power: int) -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.norm(x[:, None] - y[None], axis=-1) ** power

    result = rewritten(DISTANCE, gradients(function), floats(50, 7), floats(40, 7))
    assert largest(result) == 50 * 40
    x, y = points(50, 7), points(40, 7)
    for got, plain in both(DISTANCE, gradients(function), x, y):
        np.testing.assert_allclose(got, plain, rtol=0, atol=2e-5 * np.abs(plain).max())


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


def test_a_sum_over_the_coordinates() -> None:
    def function(x: tf.Tensor, y: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(w * (x[:, None] - y[None]), -1)

    # It takes no matrix product, so that it pays for few coordinates too.
    for dimension in (2, 7):
        specs = floats(50, dimension), floats(40, dimension), floats(dimension)
        result = rewritten(DISTANCE, function, *specs)
        assert rules(result) == ["sum_of_differences"]
        assert largest(result) == 50 * 40
        assert not any("dot_general" in line for line in shown(result.graph))
    x, y, w = points(50, 7, offset=1e3), points(40, 7, offset=1e3), points(7)
    ((got, plain),) = both(DISTANCE, function, x, y, w)
    np.testing.assert_allclose(got, plain, rtol=0, atol=1e-5 * np.abs(plain).max())


# --- sines and cosines --------------------------------------------------------------------------


def periodic(x: tf.Tensor, y: tf.Tensor, scales: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum((tf.sin(3.0 * (x[:, None] - y[None]) / scales) / scales) ** 2, -1)


def test_sums_of_squared_sines() -> None:
    result = rewritten(DISTANCE, periodic, floats(50, 7), floats(40, 7), floats(7))
    assert rules(result) == ["sum_of_differences"]
    assert largest(result) == 50 * 40
    assert "maximum" in shown(result.graph)[-2]


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 3e-6), ("float64", 1e-14)])
@pytest.mark.parametrize("offset", [0, 1e3])
def test_numbers_of_sines(dtype: str, tolerance: float, offset: float) -> None:
    x, y = (points(n, 7, offset=offset, dtype=dtype) for n in (50, 40))
    scales = np.linspace(1, 2, 7).astype(dtype)
    expected = periodic(*(tf.constant(each, tf.float64) for each in (x, y, scales)))
    ((got, _),) = both(DISTANCE, periodic, x, y, scales)
    np.testing.assert_allclose(got, expected, rtol=0, atol=7 * tolerance)
    ((got, _),) = both(DISTANCE, lambda x, s: periodic(x, x, s), x, scales)
    assert (got >= 0).all()
    np.testing.assert_allclose(np.diag(got), 0, atol=7 * tolerance)


def test_gradients_of_sines() -> None:
    specs = floats(50, 7), floats(40, 7), floats(7)
    result = rewritten(DISTANCE, gradients(periodic), *specs)
    assert set(rules(result)) == {"sum_of_differences"}
    assert largest(result) == 50 * 40
    x, y = (points(n, 7, dtype="float64") for n in (50, 40))
    for got, plain in both(DISTANCE, gradients(periodic), x, y, np.linspace(1, 2, 7)):
        np.testing.assert_allclose(got, plain, rtol=0, atol=1e-13 * np.abs(plain).max())


# --- refusals -----------------------------------------------------------------------------------

X, Y, G = floats(50, 7), floats(40, 7), floats(50, 40)

REFUSED: dict[str, tuple[Function, str]] = {
    "cubes": (
        lambda x, y, g: tf.reduce_sum(
            g[:, :, None] * (x[:, None] - y[None]) ** 2 * (x[:, None] - y[None]), 1
        ),
        "more than 2 differences",
    ),
    "many sines": (
        lambda x, y, g: tf.reduce_sum(
            g[:, :, None] * (tf.sin(x[:, None] - y[None]) ** 2) ** 2 * tf.cos(x[:, None] - y[None]),
            1,
        ),
        "more than 4 differences, sines and cosines",
    ),
    "whole weights": (
        lambda x, y, g: tf.reduce_sum(tf.tanh(g[:, :, None] * y) * (x[:, None] - y[None]), 1),
        "vary along all axes",
    ),
    "few dimensions": (
        lambda x, y, g: tf.reduce_sum(tf.sin(x[:, None, :3] - y[None, :, :3]) ** 2, -1),
        "in 3 dimensions",
    ),
    "weights of unknown sign": (
        lambda x, y, g: tf.reduce_sum(y[0] * tf.sin(x[:, None] - y[None]) ** 2, -1),
        "not squares of scales",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_sums_that_are_refused(name: str) -> None:
    function, expected = REFUSED[name]
    result = rewritten(DISTANCE, function, X, Y, G)
    assert not result.rewrites
    assert expected in reasons(result)["sum_of_differences"]


def test_nan_in_a_gradient_goes_where_it_went() -> None:
    x = special(points(50, 7), [np.nan])
    for got, plain in both(DISTANCE, gradients(naive), x, points(40, 7)):
        np.testing.assert_array_equal(np.isnan(got), np.isnan(plain))
        np.testing.assert_allclose(got, plain, rtol=1e-4, atol=1e-4)
