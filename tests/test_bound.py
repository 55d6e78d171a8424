"""What TensorFlow can need for a function at most, from its traced graph alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensorflow as tf

from tf_memsafe.bound import executor_bytes

VECTOR = tf.TensorSpec([100])
BYTES = 400
"""Of a vector of 100 f32."""


def bound(function: Callable[..., tf.Tensor], *specs: tf.TensorSpec) -> int | None:
    return executor_bytes(tf.function(function).get_concrete_function(*specs or (VECTOR,)).graph)


def test_every_tensor_counts() -> None:
    """The argument, the sine, the cosine, the sum and the result."""
    assert bound(lambda x: tf.sin(x) + tf.cos(x)) == 5 * BYTES


def test_what_called_functions_hold_counts() -> None:
    inner = tf.function(lambda x: tf.sin(tf.cos(x)))
    alone = bound(tf.identity)
    called = bound(inner)
    assert alone is not None
    assert called is not None
    assert called >= alone + 3 * BYTES


def test_both_branches_count() -> None:
    def branches(x: tf.Tensor) -> tf.Tensor:
        return tf.cond(x[0] > 0, lambda: tf.sin(tf.cos(x)), lambda: tf.tan(x))

    found = bound(branches)
    assert found is not None
    assert found >= 5 * BYTES


def test_a_loop_counts_as_often_as_its_steps_run_side_by_side() -> None:
    def loop(x: tf.Tensor, at_once: int) -> tf.Tensor:
        def step(count: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return count + 1, tf.sin(x)

        return tf.while_loop(lambda c, _: c < 7, step, (0, x), parallel_iterations=at_once)[1]

    one, ten = bound(lambda x: loop(x, 1)), bound(lambda x: loop(x, 10))
    assert one is not None
    assert ten is not None
    assert ten - one >= 9 * 2 * BYTES  # what a step is given, and what it makes


def test_what_a_loop_puts_into_a_list_counts_once_a_step() -> None:
    def squares(x: tf.Tensor) -> tf.Tensor:
        return tf.map_fn(lambda number: number * tf.ones([1000]), x)

    found = bound(squares)
    assert found is not None
    assert found >= 2 * 100 * 1000 * 4  # in the list, and stacked


@pytest.mark.parametrize(
    ("function", "spec"),
    [
        (tf.sin, tf.TensorSpec([None])),
        (lambda x: tf.boolean_mask(x, x > 0), VECTOR),
        (lambda x: tf.data.Dataset.from_tensors(x).reduce(x, tf.add), VECTOR),
    ],
    ids=["open shape", "size that is data", "data set"],
)
def test_an_unknown_size_is_no_bound(
    function: Callable[..., tf.Tensor], spec: tf.TensorSpec
) -> None:
    assert bound(function, spec) is None


def test_what_is_read_of_a_variable_counts_and_the_variable_does_not() -> None:
    variable = tf.Variable(tf.ones([100]))
    assert (
        bound(lambda x: x + variable) == 4 * BYTES
    )  # the argument, the value, the sum, the result
