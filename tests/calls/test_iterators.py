"""Functions that read batches from a data set's iterator, which XLA cannot compile."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import (
    LIMIT,
    assert_same,
    compiled,
    gradients,
    kernel,
    points_and_weights,
)
from tf_memsafe.executable import Executable

Runs = list[Executable]
Make = Callable[..., Any]

BOTH = pytest.mark.parametrize("made", [tf.function, compiled], ids=["plain", "compiled"])
"""Functions without `jit_compile=True`, and with it."""

BATCH = 80
"""Of 100 rows: the last batch has 20."""


def batches(fixed: bool = False) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(tuple(points_and_weights())).batch(BATCH, fixed)


def limited(call: Callable[..., Any], *arguments: Any) -> Any:
    """What a call returns under the limit, of which nothing is left as it is."""
    with warnings.catch_warnings(), tf_memsafe.memory_limit(LIMIT):
        warnings.simplefilter("error", tf_memsafe.MemorySafetyWarning)
        return call(*arguments)


@BOTH
@pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "open"])
def test_each_batch_is_held_to_the_limit(made: Make, fixed: bool, rewritten_runs: Runs) -> None:
    step = made(lambda x, v: tf.reduce_sum(kernel(x, v)))
    read = tf.function(lambda iterator: step(*next(iterator)))
    data, iterator = batches(fixed), iter(batches(fixed))
    for x, v in data:
        assert_same(limited(read, iterator), tf.reduce_sum(kernel(x, v)))
    with pytest.raises(tf.errors.OutOfRangeError):
        limited(read, iterator)
    assert rewritten_runs
    assert all(run.peak <= LIMIT for run in rewritten_runs)


@BOTH
def test_training_in_a_loop(made: Make, rewritten_runs: Runs) -> None:
    """The variable is read and assigned inside of the step and around it."""

    def train() -> list[tf.Tensor]:
        scale, steps = tf.Variable(1.5, dtype=tf.float64), tf.Variable(0)

        @made
        def step(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(kernel(scale * x, v) ** 2)
            scale.assign_sub(0.1 * tape.gradient(loss, scale))
            return loss

        @tf.function
        def epochs(iterator: Any) -> tf.Tensor:
            total = tf.constant(0.0, tf.float64)
            for _ in tf.range(4):
                total += step(*next(iterator)) * scale
                scale.assign(scale * 0.9)
                steps.assign_add(1)
            return total

        return [epochs(iter(batches().repeat())), scale.read_value(), steps.read_value()]

    expected = train()
    assert_same(limited(train), expected)
    assert len(rewritten_runs) >= 2
    assert all(run.peak <= LIMIT for run in rewritten_runs)


@BOTH
def test_a_step_without_results(made: Make, rewritten_runs: Runs) -> None:
    total = tf.Variable(0.0, dtype=tf.float64)
    step = made(lambda x, v: [total.assign_add(tf.reduce_sum(kernel(x, v)))][:0])

    @tf.function
    def read(iterator: Any) -> tf.Tensor:
        for _ in tf.range(2):
            step(*next(iterator))
        return total.read_value()

    found = limited(read, iter(batches()))
    assert_same(found, tf.add_n([tf.reduce_sum(kernel(x, v)) for x, v in batches()]))
    assert rewritten_runs


@BOTH
def test_a_tape_next_to_the_call(made: Make) -> None:
    """What a tape sees is not run by Python: it is left as it is, and says so."""
    step = made(kernel)
    read = tf.function(lambda iterator: gradients(step)(*next(iterator)))
    with (
        tf_memsafe.memory_limit(LIMIT),
        pytest.warns(tf_memsafe.MemorySafetyWarning, match="traced with a shape of"),
    ):
        found = read(iter(batches()))
    assert_same(found, gradients(kernel)(*next(iter(batches()))))


def test_a_tape_around_all_is_an_error_instead_of_no_gradient() -> None:
    scale = tf.Variable(1.5, dtype=tf.float64)
    step = compiled(lambda x, v: tf.reduce_sum(kernel(scale * x, v)))
    read = tf.function(lambda iterator: step(*next(iterator)))
    iterator = iter(batches())
    limited(read, iterator)
    with tf.GradientTape(), pytest.raises(LookupError, match="open the tape inside of it"):
        read(iterator)


@BOTH
def test_errors_are_raised_as_they_are(made: Make) -> None:
    step = made(kernel)
    read = tf.function(lambda iterator: step(*next(iterator)))
    with (
        tf_memsafe.memory_limit(5_000),
        pytest.raises(tf_memsafe.MemoryLimitError, match="kernel needs at least") as caught,
    ):
        read(iter(batches()))
    assert caught.value.memory_limit == 5_000


def test_the_limit_of_the_first_call_stays(rewritten_runs: Runs) -> None:
    """As in a call of fixed shapes, which is cut when it is traced."""
    step, iterator = compiled(kernel), iter(batches().repeat())
    read = tf.function(lambda iterator: step(*next(iterator)))
    limited(read, iterator)
    read(iterator)
    assert len(rewritten_runs) >= 1
    assert tf_memsafe.get_memory_limit() is None


def test_a_function_is_freed_with_what_calls_it() -> None:
    steps = [compiled(kernel)]
    read = tf.function(lambda iterator: steps[0](*next(iterator)))
    limited(read, iter(batches()))
    (concrete,) = steps[0]._list_all_concrete_functions_for_serialization()
    freed = weakref.ref(concrete)
    del concrete, read
    steps.clear()  # TensorFlow keeps the lambda
    gc.collect()
    assert freed() is None
