"""Functions that are cut and that assign variables or draw random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import LIMIT, assert_same, compiled, kernel, points_and_weights
from tf_memsafe.executable import Executable

Runs = list[Executable]


class Counter(tf.Module):
    """Counts its calls and keeps a sum of their results."""

    def __init__(self) -> None:
        self.calls = tf.Variable(0)
        self.total = tf.Variable(tf.zeros([100, 4], tf.float64))

    @tf.function(jit_compile=True)
    def __call__(self, x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        self.calls.assign_add(1)
        result = kernel(x, v) * tf.cast(self.calls, x.dtype)
        self.total.assign_add(result)
        return result


def test_variables_are_assigned_at_each_call(rewritten_runs: Runs) -> None:
    counter, expected, arguments = Counter(), Counter(), points_and_weights()
    for calls in (1, 2, 3):
        with tf_memsafe.memory_limit(LIMIT):
            found = counter(*arguments)
        assert_same(found, expected(*arguments))
        assert counter.calls.numpy() == calls
        assert_same(counter.total.read_value(), expected.total.read_value())
    assert len(rewritten_runs) == 3


def test_variables_are_assigned_once_while_a_tape_is_open(rewritten_runs: Runs) -> None:
    counter, expected, (x, v) = Counter(), Counter(), points_and_weights()

    def gradient(counted: Counter) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(v)
            loss = tf.reduce_sum(counted(x, v) + counted(x, v))
        counted.calls.assign_add(10)  # the gradient, which runs it again, leaves it alone
        return loss, tape.gradient(loss, v)

    with tf_memsafe.memory_limit(LIMIT):
        found = gradient(counter)
    assert_same(found, gradient(expected))
    assert_same(counter.total.read_value(), expected.total.read_value())
    assert counter.calls.numpy() == 12
    assert rewritten_runs


def test_a_training_step_inside_the_function(rewritten_runs: Runs) -> None:
    x, v = points_and_weights()
    scale = tf.Variable(1.0, dtype=tf.float64)

    @tf.function(jit_compile=True)
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(kernel(x / scale, v) ** 2)
        scale.assign_sub(1e-3 * tape.gradient(loss, scale))
        return loss

    expected = [step() for _ in range(3)]
    scale.assign(1.0)
    with tf_memsafe.memory_limit(LIMIT):
        assert_same([step() for _ in range(3)], expected)
    assert len(rewritten_runs) == 3


def test_a_variable_that_is_read_after_it_is_assigned(rewritten_runs: Runs) -> None:
    x, v = points_and_weights()
    state = tf.Variable(v)

    @tf.function(jit_compile=True)
    def step() -> tuple[tf.Tensor, tf.Tensor]:
        before = state.read_value()
        state.assign(kernel(x, state))
        return before, state.read_value()

    with tf_memsafe.memory_limit(LIMIT):
        before, after = step()
    assert_same([before, after], [v, kernel(x, v)])
    assert_same(state.read_value(), after)
    assert rewritten_runs


def noisy(x: Any, v: Any) -> Any:
    return kernel(x, v) + tf.random.normal([100, 4], dtype=tf.float64)


def test_random_numbers_differ_from_call_to_call(rewritten_runs: Runs) -> None:
    x, v = points_and_weights()
    function = compiled(noisy)
    with tf_memsafe.memory_limit(LIMIT):
        first, second = (function(x, v) - kernel(x, v) for _ in range(2))
    assert len(rewritten_runs) == 2
    assert not np.allclose(first, second)
    assert 0.5 < np.std(first) < 1.5


def test_random_numbers_under_a_tape_leave_the_function_as_it_is(rewritten_runs: Runs) -> None:
    """Its gradient would draw other numbers than its result did."""
    x, v = points_and_weights()
    function = compiled(lambda x, v: noisy(x, v) * tf.random.normal([], dtype=tf.float64))
    with tf_memsafe.memory_limit(LIMIT):
        with tf.GradientTape() as tape:
            tape.watch(v)
            with pytest.warns(tf_memsafe.MemorySafetyWarning, match="random numbers"):
                y = function(x, v)
        gradient = tape.gradient(y, v)
    assert rewritten_runs == []
    assert gradient.shape == v.shape


def test_stateless_random_numbers_are_the_same(rewritten_runs: Runs) -> None:
    x, v = points_and_weights()

    @tf.function(jit_compile=True)
    def function(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        return kernel(x, v) * tf.random.stateless_normal([100, 4], [1, 2], dtype=tf.float64)

    def gradient() -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(v)
            y = function(x, v)
        return y, tape.gradient(y, v)

    expected = gradient()
    with tf_memsafe.memory_limit(LIMIT):
        assert_same(gradient(), expected)
    assert rewritten_runs


def test_a_generator_moves_on(rewritten_runs: Runs) -> None:
    x, v = points_and_weights()
    generator = tf.random.Generator.from_seed(1)
    function = compiled(lambda: kernel(x, v) + generator.normal([100, 4], dtype=tf.float64))
    expected = [function() for _ in range(2)]
    generator.reset_from_seed(1)
    with tf_memsafe.memory_limit(LIMIT):
        assert_same([function() for _ in range(2)], expected)
    assert len(rewritten_runs) == 2
