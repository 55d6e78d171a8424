"""Derivatives of functions that are held to a limit, in every way TensorFlow has of asking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import assert_same, compiled, gradients, kernel, points_and_weights
from tf_memsafe.executable import Executable

Runs = list[Executable]
Make = Callable[[Callable[..., Any]], Callable[..., Any]]

LIMIT = 75_000
"""Bytes: `kernel` needs 89 kB, what is derived from it more, and two of them at once 47 kB."""

BOTH = pytest.mark.parametrize("made", [tf.function, compiled], ids=["plain", "compiled"])
"""Functions without `jit_compile=True`, and with it."""


def energy(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(v * kernel(x, v))


@pytest.fixture
def under_limit() -> Callable[[Callable[[], Any]], Any]:
    def call(function: Callable[[], Any]) -> Any:
        with tf_memsafe.memory_limit(LIMIT):
            return function()

    return call


@BOTH
@pytest.mark.parametrize("parallel", [True, False])
def test_batch_jacobian(
    made: Make, parallel: bool, under_limit: Callable[..., Any], rewritten_runs: Runs
) -> None:
    function, (x, v) = made(kernel), points_and_weights()

    def jacobian() -> tf.Tensor:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(v)
            y = function(x, v)
        return tape.batch_jacobian(y, v, experimental_use_pfor=parallel)

    expected = jacobian()
    assert_same(under_limit(jacobian), expected)
    assert all(run.peak <= LIMIT for run in rewritten_runs)
    assert rewritten_runs


def direction(x: tf.Tensor) -> tf.Tensor:
    return tf.cos(7 * x)


@BOTH
def test_hessian_vector_product(
    made: Make, under_limit: Callable[..., Any], rewritten_runs: Runs
) -> None:
    function, (x, v) = made(energy), points_and_weights()

    def product() -> tf.Tensor:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = function(x, v)
            gradient = inner.gradient(y, x)
        return outer.gradient(gradient, x, output_gradients=direction(x))

    expected = product()
    assert_same(under_limit(product), expected)
    assert len(rewritten_runs) >= 3
    assert all(run.peak <= LIMIT for run in rewritten_runs)


@tf.custom_gradient
def clipped(x: tf.Tensor) -> Any:
    return tf.sin(x), lambda upstream: tf.clip_by_value(upstream, -0.1, 0.1)


@BOTH
@pytest.mark.parametrize(
    "inner",
    [clipped, tf.stop_gradient, tf.recompute_grad(tf.sin)],
    ids=["custom_gradient", "stop_gradient", "recompute_grad"],
)
def test_gradients_that_the_user_defines(
    made: Make,
    inner: Callable[[tf.Tensor], tf.Tensor],
    under_limit: Callable[..., Any],
    rewritten_runs: Runs,
) -> None:
    function = made(lambda x, v: energy(inner(x), v) + energy(x, inner(v)))
    x, v = points_and_weights()
    expected = gradients(function)(x, v)
    assert_same(under_limit(lambda: gradients(function)(x, v)), expected)
    assert len(rewritten_runs) == 2
    assert all(run.peak <= LIMIT for run in rewritten_runs)


@BOTH
def test_integer_inputs_and_results_without_gradients(
    made: Make, under_limit: Callable[..., Any]
) -> None:
    def function(x: tf.Tensor, v: tf.Tensor, column: tf.Tensor) -> Any:
        y = kernel(x, v)
        return tf.gather(y, column, axis=1), tf.argmax(y, 1), tf.stop_gradient(y)

    traced, (x, v) = made(function), points_and_weights()

    def gradients() -> Any:
        column = tf.constant(1)
        with tf.GradientTape() as tape:
            tape.watch((x, v))
            y, _, _ = traced(x, v, column)
        return tape.gradient(y, (x, v, column))

    expected = gradients()
    assert_same(under_limit(gradients), expected)
    assert expected[2] is None


@BOTH
def test_a_tape_inside_of_another_function(made: Make, under_limit: Callable[..., Any]) -> None:
    function, (x, v) = made(energy), points_and_weights()

    @tf.function
    def gradient(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x, v)
        return tape.gradient(y, x)

    expected = gradient(x, v)
    with tf_memsafe.memory_limit(LIMIT):
        again = tf.function(gradient.python_function)
        assert_same(again(x, v), expected)


@BOTH
def test_each_pass_keeps_to_the_limit(made: Make, rewritten_runs: Runs) -> None:
    function, (x, v) = made(energy), points_and_weights()
    with tf_memsafe.memory_limit(LIMIT):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch((x, v))
            y = function(x, v)
        tape.gradient(y, x)
        tape.gradient(y, v)
    assert len(rewritten_runs) == 3
    assert all(run.peak <= LIMIT for run in rewritten_runs)
