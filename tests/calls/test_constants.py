"""Arguments that XLA has to know when it compiles: how many, of what shape, along which axis."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import LIMIT, assert_same, compiled, gradients, kernel, points_and_weights
from tf_memsafe.executable import Executable
from tf_memsafe.hook import MOST_KNOWN
from tf_memsafe.proof import Proof

Runs = list[Executable]
Make = Callable[..., Any]

BOTH = pytest.mark.parametrize("made", [tf.function, compiled], ids=["plain", "compiled"])
"""Functions without `jit_compile=True`, and with it."""


def largest(x: tf.Tensor, v: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    return tf.math.top_k(tf.transpose(kernel(x, v)), count).values


def padded(x: tf.Tensor, v: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    return tf.concat([kernel(x, v), tf.zeros([count, 4], tf.float64)], 0)


def reshaped(x: tf.Tensor, v: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
    return tf.reshape(kernel(x, v), shape)


def numbered(x: tf.Tensor, v: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    return kernel(x, v) + tf.cast(tf.range(count), tf.float64)[:, None]


def summed(x: tf.Tensor, v: tf.Tensor, axis: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(kernel(x, v), axis)


def accumulated(x: tf.Tensor, v: tf.Tensor, axis: tf.Tensor) -> tf.Tensor:
    """The shape does not depend on the axis, but the program does."""
    return tf.cumsum(kernel(x, v), axis)


def rows_from(x: tf.Tensor, v: tf.Tensor, first: tf.Tensor) -> tf.Tensor:
    return kernel(x, v)[first : first + 50]


def bordered(x: tf.Tensor, v: tf.Tensor, paddings: tf.Tensor) -> tf.Tensor:
    return tf.pad(kernel(x, v), paddings)


CASES = [
    (largest, 5, 6),
    (padded, 3, 4),
    (reshaped, [200, 2], [4, 100]),
    (numbered, 100, 1),
    (summed, 0, 1),
    (accumulated, 0, 1),
    (rows_from, 3, 40),
    (bordered, [[1, 2], [0, 0]], [[0, 1], [3, 0]]),
]


@BOTH
@pytest.mark.parametrize(("function", "one", "other"), CASES)
def test_a_program_for_each_value(
    function: Callable[..., tf.Tensor],
    one: Any,
    other: Any,
    made: Make,
    proofs: list[Proof],
    rewritten_runs: Runs,
) -> None:
    traced, (x, v) = made(function), points_and_weights()
    with tf_memsafe.memory_limit(LIMIT):
        for value in map(tf.constant, (one, other, one)):
            assert_same(traced(x, v, value), function(x, v, value))
    assert len(rewritten_runs) == 3
    assert len(proofs) == 2
    assert all(run.peak <= LIMIT for run in rewritten_runs)


@pytest.mark.parametrize(("function", "one", "other"), CASES)
def test_its_gradient(
    function: Callable[..., tf.Tensor], one: Any, other: Any, rewritten_runs: Runs
) -> None:
    traced, arguments = compiled(function), points_and_weights()
    with tf_memsafe.memory_limit(LIMIT):
        for value in map(tf.constant, (one, other)):
            found = gradients(lambda x, v, value=value: traced(x, v, value))(*arguments)
            expected = gradients(lambda x, v, value=value: function(x, v, value))(*arguments)
            assert_same(found, expected)
    assert len(rewritten_runs) == 4
    assert all(run.peak <= LIMIT for run in rewritten_runs)


@BOTH
def test_only_what_xla_has_to_know_is_a_constant(
    made: Make, proofs: list[Proof], rewritten_runs: Runs
) -> None:
    calls = tf.Variable(0)

    @made
    def scaled(x: tf.Tensor, step: tf.Tensor, v: tf.Tensor, count: tf.Tensor) -> Any:
        calls.assign_add(step)
        return {"kept": largest(x, v, count) * tf.cast(step, tf.float64), "count": count}

    x, v = points_and_weights()
    with tf_memsafe.memory_limit(LIMIT):
        for step in range(1, 4):
            found = scaled(x, tf.constant(step), v, count=tf.constant(7))
            assert_same(found["kept"], step * largest(x, v, 7))
            assert found["count"] == 7
    assert calls.numpy() == 6
    assert len(rewritten_runs) == 3
    assert len(proofs) == 1


def test_a_constant_of_a_call_that_is_traced(rewritten_runs: Runs) -> None:
    inner, (x, v) = compiled(largest), points_and_weights()

    @tf.function
    def outer(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        tf.strings.as_string(x)  # which XLA cannot compile
        return inner(x, v, tf.constant(5))

    with warnings.catch_warnings(), tf_memsafe.memory_limit(LIMIT):
        warnings.filterwarnings("ignore", ".*leaves outer")
        assert_same(outer(x, v), largest(x, v, 5))
    assert len(rewritten_runs) == 1


def test_the_limit_error_names_the_users_function() -> None:
    function, (x, v) = compiled(largest), points_and_weights()
    with (
        tf_memsafe.memory_limit(5_000),
        pytest.raises(tf_memsafe.MemoryLimitError, match="largest needs"),
    ):
        function(x, v, tf.constant(5))


@BOTH
def test_many_values_are_worth_a_warning(made: Make, proofs: list[Proof]) -> None:
    @made
    def rows_from(x: tf.Tensor, first: tf.Tensor) -> tf.Tensor:
        return x[first : first + 50]

    (x, _), leaves = points_and_weights(), made is tf.function
    does = "leaves it as it is for others" if leaves else "compiles it for each"
    message = (
        f"tf_memsafe has planned rows_from for more than {MOST_KNOWN} values of first, and {does}: "
        "XLA has to know them, so give it few"
    )
    with tf_memsafe.memory_limit("1GB"):
        for first in range(MOST_KNOWN):
            rows_from(x, tf.constant(first))
        with pytest.warns(tf_memsafe.MemorySafetyWarning, match=message):
            assert_same(rows_from(x, tf.constant(50)), x[50:])
    assert len(proofs) == MOST_KNOWN + (not leaves)


# --- variables ---


@BOTH
def test_a_variable_that_is_a_shape(made: Make, proofs: list[Proof], rewritten_runs: Runs) -> None:
    (x, v), count = points_and_weights(), tf.Variable(3)

    @made
    def repeated(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(kernel(x, v) @ tf.ones([4, count + 0], x.dtype), 0)

    for value in (3, 5, 3):
        count.assign(value)
        expected = repeated(x, v)
        with tf_memsafe.memory_limit(LIMIT):
            assert_same(repeated(x, v), expected)
        assert count.numpy() == value
    assert len(proofs) == 2
    assert len(rewritten_runs) == 3
    assert all(run.peak <= LIMIT for run in rewritten_runs)


@BOTH
def test_a_variable_that_is_a_shape_and_counts_is_left(made: Make) -> None:
    """Its value at the end is not that at the start: the function runs as it is written."""
    (x, v), count = points_and_weights(), tf.Variable(3)

    @made
    def growing(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        found = tf.reduce_sum(kernel(x, v) @ tf.ones([4, count + 0], x.dtype), 0)
        count.assign_add(1)
        return found

    with tf_memsafe.memory_limit(LIMIT):
        with pytest.warns(tf_memsafe.MemorySafetyWarning, match="XLA cannot compile Fill"):
            first = growing(x, v)
        assert [first.shape[0], growing(x, v).shape[0]] == [3, 4]


# --- explain ---


@pytest.mark.parametrize("number", [5, tf.constant(5)], ids=["number", "tensor"])
def test_a_report_on_a_constant(number: Any) -> None:
    """Traced with a tensor for it, as it would be called with another value."""
    signature = [tf.TensorSpec([100, size], tf.float64) for size in (3, 4)]
    traced = compiled(largest, input_signature=[*signature, tf.TensorSpec([], tf.int32)])
    report = tf_memsafe.explain(traced, *signature, number, memory_limit=LIMIT)
    assert report.problem is None
    assert report.peak_after <= LIMIT < report.peak_before


def test_a_report_without_the_constant() -> None:
    x, v = points_and_weights()
    number = tf.TensorSpec([], tf.int32)
    report = tf_memsafe.explain(compiled(largest), x, v, number, memory_limit=LIMIT)
    assert report.problem is not None
    assert "is data; keep to sizes that are known" in report.problem
