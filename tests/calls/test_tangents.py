"""What forward accumulators ask of functions that are held to a limit, in every nesting.

TensorFlow's own functions cannot do all of it: a tape over the tangents of a tf.function, and the
tangents of its gradients to variables, are errors. So the same is asked of the function run op by
op, without a tf.function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import assert_same, compiled, kernel, points_and_weights
from tf_memsafe.executable import Executable

Runs = list[Executable]
Function = Callable[..., Any]

LIMIT = 75_000
"""Bytes: op by op, the differences between the points alone take 240 kB."""


def energy(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(v * kernel(x, v))


def along(x: tf.Tensor, direction: Function = tf.cos) -> tf.autodiff.ForwardAccumulator:
    return tf.autodiff.ForwardAccumulator(x, direction(7 * x))


def tangent(function: Function, x: tf.Tensor, v: tf.Tensor) -> Any:
    with along(x) as accumulator:
        y = function(x, v)
    return accumulator.jvp(y)


def tangent_of_a_gradient(function: Function, x: tf.Tensor, v: tf.Tensor) -> Any:
    with along(x) as accumulator:
        with tf.GradientTape() as tape:
            tape.watch([x, v])
            y = function(x, v)
        gradients = tape.gradient(y, [x, v])
    return accumulator.jvp([y, *gradients])


def gradient_of_a_tangent(function: Function, x: tf.Tensor, v: tf.Tensor) -> Any:
    with tf.GradientTape() as tape:
        tape.watch([x, v])
        found = tangent(function, x, v)
    return tape.gradient(found, [x, v])


def tangent_of_a_tangent(function: Function, x: tf.Tensor, v: tf.Tensor) -> Any:
    with along(x, tf.sin) as accumulator:
        found = tangent(function, x, v)
    return accumulator.jvp(found)


ASKED = [tangent, tangent_of_a_gradient, gradient_of_a_tangent, tangent_of_a_tangent]


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize(("made", "function"), [(tf.function, energy), (compiled, kernel)])
def test_of_a_call(
    made: Function, function: Function, asked: Function, rewritten_runs: Runs
) -> None:
    x, v = points_and_weights()
    expected = asked(function, x, v)
    with tf_memsafe.memory_limit(LIMIT):
        found = asked(made(function), x, v)
    assert_same(found, expected)
    assert len(rewritten_runs) >= 2
    assert all(run.peak <= LIMIT for run in rewritten_runs)


@pytest.mark.slow  # TensorFlow traces the derivatives of derivatives for long
def test_of_variables(rewritten_runs: Runs) -> None:
    x, v = map(tf.Variable, points_and_weights())

    def of_variables() -> tf.Tensor:
        return energy(x, v)

    def product(function: Function) -> Any:
        with tf.autodiff.ForwardAccumulator([x, v], [tf.cos(7 * x), tf.sin(v)]) as accumulator:
            with tf.GradientTape() as tape:
                y = function()
            gradients = tape.gradient(y, [x, v])
        return accumulator.jvp([y, *gradients])

    expected = product(of_variables)
    function = compiled(of_variables)
    # An accumulator that watches a variable would break TensorFlow's own tracing.
    function.get_concrete_function()
    with tf_memsafe.memory_limit(LIMIT):
        assert_same(product(function), expected)
    assert all(run.peak <= LIMIT for run in rewritten_runs)
    assert rewritten_runs


def test_variables_are_as_they_were_at_the_call() -> None:
    x, v = points_and_weights()
    scale = tf.Variable(2.0, dtype=v.dtype)

    @compiled
    def scaled(x: tf.Tensor) -> tf.Tensor:
        y = scale * energy(x, v)
        scale.assign_add(1.0)
        return y

    with tf_memsafe.memory_limit(LIMIT):
        found = tangent(lambda x, _: scaled(x), x, v)
    assert_same(found, 2 * tangent(energy, x, v))
    assert scale == 3.0


def test_results_without_a_tangent() -> None:
    x, v = points_and_weights()

    def several(x: tf.Tensor, v: tf.Tensor) -> Any:
        y = kernel(x, v)
        return tf.argmax(y), y, tf.reduce_sum(v)

    def tangents(function: Function) -> Any:
        with along(x) as accumulator:
            results = function(x, v)
        return accumulator.jvp(results)

    function = compiled(several)
    expected = tangents(function)
    with tf_memsafe.memory_limit(LIMIT):
        assert_same(tangents(function), expected)
    assert [found is None for found in expected] == [True, False, False]


def test_what_is_run_op_by_op_has_no_limit() -> None:
    x, v = points_and_weights()
    expected = tangent(energy, x, v)
    with tf_memsafe.memory_limit(100):
        assert_same(tangent(energy, x, v), expected)


def test_a_function_that_cannot_fit_is_refused() -> None:
    x, v = points_and_weights()
    with tf_memsafe.memory_limit(100), pytest.raises(tf_memsafe.MemoryLimitError):
        tangent(compiled(energy), x, v)


def test_random_numbers_cannot_be_drawn_again() -> None:
    x, v = points_and_weights()

    def noisy(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        return energy(x + tf.random.normal(x.shape, dtype=x.dtype), v)

    with (
        tf_memsafe.memory_limit(LIMIT),
        pytest.warns(tf_memsafe.MemorySafetyWarning, match="random numbers"),
    ):
        assert tangent(compiled(noisy), x, v) is not None
