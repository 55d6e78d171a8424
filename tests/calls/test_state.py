"""Functions that change something: variables, generators, optimizers, what is made on a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import LIMIT, assert_same, compiled, kernel, points_and_weights
from tf_memsafe.executable import Executable

Runs = list[Executable]
Make = Callable[[Callable[..., Any]], Callable[..., Any]]

BOTH = pytest.mark.parametrize("made", [tf.function, compiled], ids=["plain", "compiled"])
"""Functions without `jit_compile=True`, and with it."""


@pytest.fixture(autouse=True)
def held(rewritten_runs: Runs) -> Iterator[None]:
    """Every function here is cut, and proved to keep to the limit."""
    yield
    assert rewritten_runs
    assert all(run.peak <= LIMIT for run in rewritten_runs)


def training(made: Make) -> Callable[[], list[tf.Tensor]]:
    """Three steps of Adam in a function: the optimizer makes its slots at the first."""
    x, v = points_and_weights()
    scale = tf.Variable(1.5, dtype=tf.float64)
    weights = tf.Variable(v)
    optimizer = keras.optimizers.Adam(0.01)

    @made
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(kernel(scale * x, weights) ** 2)
        variables = [scale, weights]
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    def train() -> list[tf.Tensor]:
        return [*(step() for _ in range(3)), scale.read_value(), weights.read_value()]

    return train


@BOTH
def test_a_training_step_with_an_optimizer(made: Make) -> None:
    expected = training(made)()
    with tf_memsafe.memory_limit(LIMIT):
        found = training(made)()
    assert_same(found, expected)


@BOTH
def test_batch_statistics_and_counters(made: Make) -> None:
    def run() -> Any:
        mean = tf.Variable(tf.zeros([4], tf.float64))
        count = tf.Variable(0)

        @made
        def update(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
            y = kernel(x, v)
            mean.assign(0.9 * mean + 0.1 * tf.reduce_mean(y, 0))
            count.assign_add(1)
            return y - mean

        results = [update(*points_and_weights()) for _ in range(3)]
        return results, mean.read_value(), count.read_value()

    expected = run()
    with tf_memsafe.memory_limit(LIMIT):
        assert_same(run(), expected)


@BOTH
def test_variables_made_at_the_first_call(made: Make) -> None:
    class Scaled(tf.Module):
        scale: tf.Variable | None = None

        def apply(self, x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
            if self.scale is None:
                self.scale = tf.Variable(2.0, dtype=tf.float64)
            return self.scale * kernel(x, v)

    module, (x, v) = Scaled(), points_and_weights()
    function = made(module.apply)
    with tf_memsafe.memory_limit(LIMIT):
        assert_same(function(x, v), 2 * kernel(x, v))
        assert module.scale is not None
        module.scale.assign(3.0)
        assert_same(function(x, v), 3 * kernel(x, v))


@BOTH
def test_random_numbers_have_their_distribution(made: Make) -> None:
    generator = tf.random.Generator.from_seed(7)

    def sample(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        noise = generator.normal([400], dtype=tf.float64) + tf.random.normal([400], dtype="float64")
        return noise, kernel(x, v)

    function, (x, v) = made(sample), points_and_weights()
    with tf_memsafe.memory_limit(LIMIT):
        samples = [function(x, v) for _ in range(20)]
    noise = np.stack([sample[0] for sample in samples])
    # The mean of 8,000 has a deviation of 0.016, the variance (2) one of 0.032; five of them.
    assert abs(noise.mean()) < 0.08
    assert abs(noise.var() - 2) < 0.16
    assert len(np.unique(noise)) == noise.size
    assert_same(samples[-1][1], kernel(x, v))


@BOTH
def test_tensor_arrays(made: Make) -> None:
    def rows(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        found = tf.TensorArray(tf.float64, 3)
        for index in range(3):
            found = found.write(index, tf.reduce_sum(kernel(x, v * index), 0))
        return found.stack()

    function, (x, v) = made(rows), points_and_weights()
    expected = function(x, v)
    with tf_memsafe.memory_limit(LIMIT):
        assert_same(function(x, v), expected)


def test_assertions_are_as_xla_treats_them() -> None:
    def checked(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        tf.debugging.assert_all_finite(x, "not finite")
        tf.debugging.assert_positive(x)
        return kernel(x, v)

    function, (x, v) = compiled(checked), points_and_weights()
    expected = function(x, v)  # x has negative numbers, and XLA does not look
    with tf_memsafe.memory_limit(LIMIT):
        assert_same(function(x, v), expected)
