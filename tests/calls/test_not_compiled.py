"""Functions without `jit_compile=True`: held to a limit where they may exceed it."""

from __future__ import annotations

import warnings
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
    place_of,
    points_and_weights,
)
from tf_memsafe.executable import Executable
from tf_memsafe.proof import Proof
from tf_memsafe.xla import ConcreteFunction

Runs = list[Executable]


def warnings_of(call: Callable[[], Any], limit: int = LIMIT) -> list[str]:
    with tf_memsafe.memory_limit(limit), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in caught]


# --- what is held to the limit ---


def test_a_function_that_may_exceed_the_limit_is_cut(
    rewritten_runs: Runs, proofs: list[Proof]
) -> None:
    function, (x, v) = tf.function(kernel), points_and_weights()
    expected = function(x, v)
    with tf_memsafe.memory_limit(LIMIT):
        for _ in range(2):
            assert_same(function(x, v), expected)
    assert len(rewritten_runs) == 2
    (proof,) = proofs
    assert proof.peak_after <= LIMIT


def test_its_gradient_is_cut_too(rewritten_runs: Runs) -> None:
    function, (x, v) = tf.function(kernel), points_and_weights()
    expected = gradients(function)(x, v)
    with tf_memsafe.memory_limit(LIMIT):
        assert_same(gradients(function)(x, v), expected)
    assert len(rewritten_runs) == 2
    assert all(run.peak <= LIMIT for run in rewritten_runs)


def test_a_function_that_xla_makes_fit_is_compiled_and_proved(
    rewritten_runs: Runs, proofs: list[Proof]
) -> None:
    """XLA fuses what TensorFlow keeps: twelve tensors of 2 kB, of which a program needs two."""

    def waves(x: tf.Tensor) -> tf.Tensor:
        for _ in range(12):
            x = tf.sin(x)
        return x

    function, x = tf.function(waves), tf.ones([250], tf.float64)
    with tf_memsafe.memory_limit(5_000):
        assert_same(function(x), waves(x))
    (run,) = rewritten_runs
    assert run.peak == proofs[0].peak_after <= 5_000


def test_what_cannot_be_kept_to_is_an_error() -> None:
    function, (x, v) = tf.function(kernel), points_and_weights()
    with tf_memsafe.memory_limit(5_000), pytest.raises(tf_memsafe.MemoryLimitError, match="kernel"):
        function(x, v)


def test_shapes_that_the_signature_leaves_open(rewritten_runs: Runs) -> None:
    signature = [tf.TensorSpec([None, 3], tf.float64), tf.TensorSpec([None, 4], tf.float64)]
    function, (x, v) = tf.function(kernel, input_signature=signature), points_and_weights()
    with tf_memsafe.memory_limit(LIMIT):
        assert_same(function(x, v), kernel(x, v))
        assert_same(function(x[:5], v[:5]), kernel(x[:5], v[:5]))
    assert len(rewritten_runs) == 1


def test_variables_are_assigned() -> None:
    total = tf.Variable(0.0, dtype=tf.float64)

    @tf.function
    def add(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        total.assign_add(tf.reduce_sum(kernel(x, v)))
        return total.read_value()

    x, v = points_and_weights()
    with tf_memsafe.memory_limit(LIMIT):
        add(x, v)
        found = add(x, v)
    assert_same(found, 2 * tf.reduce_sum(kernel(x, v)))
    assert_same(total.read_value(), found)


def test_a_compiled_function_inside_is_cut_with_it(rewritten_runs: Runs) -> None:
    inner, (x, v) = compiled(kernel), points_and_weights()
    outer = tf.function(lambda x, v: 2 * inner(x, v))
    with tf_memsafe.memory_limit(LIMIT):
        assert_same(outer(x, v), 2 * kernel(x, v))
    assert rewritten_runs


# --- what is left alone ---


def test_a_function_that_is_clearly_under_the_limit(
    rewritten_runs: Runs, proofs: list[Proof], measured: list[ConcreteFunction]
) -> None:
    function, (x, v) = tf.function(kernel), points_and_weights()
    assert warnings_of(lambda: function(x, v), 10_000_000) == []
    assert (rewritten_runs, proofs, measured) == ([], [], [])


def test_open_shapes_that_turn_out_small(
    rewritten_runs: Runs, measured: list[ConcreteFunction]
) -> None:
    signature = [tf.TensorSpec([None, 3], tf.float64), tf.TensorSpec([None, 4], tf.float64)]
    function, (x, v) = tf.function(kernel, input_signature=signature), points_and_weights()
    assert warnings_of(lambda: function(x, v), 10_000_000) == []
    assert (rewritten_runs, measured) == ([], [])


def test_a_scope_of_compiled_functions_alone(rewritten_runs: Runs, proofs: list[Proof]) -> None:
    function, (x, v) = tf.function(kernel), points_and_weights()
    with tf_memsafe.memory_limit(LIMIT, scope="jit"):
        assert_same(function(x, v), kernel(x, v))
        assert (rewritten_runs, proofs) == ([], [])
        assert_same(compiled(kernel)(x, v), kernel(x, v))
    assert len(rewritten_runs) == 1
    tf_memsafe.set_memory_limit(LIMIT, scope="jit")
    function(x, v)
    assert len(rewritten_runs) == 1


def test_an_invalid_scope_changes_nothing() -> None:
    tf_memsafe.set_memory_limit(LIMIT)
    with pytest.raises(ValueError, match="'xla' is not a scope"):
        tf_memsafe.set_memory_limit("1GB", scope="xla")
    assert tf_memsafe.get_memory_limit() == LIMIT


# --- what XLA cannot compile ---


def prints(x: tf.Tensor) -> tf.Tensor:
    tf.print(x[0])
    return x @ tf.transpose(x)


def calls_python(x: tf.Tensor) -> tf.Tensor:
    return tf.py_function(tf.sin, [x], tf.float64) @ tf.transpose(x)


def makes_strings(x: tf.Tensor) -> tf.Tensor:
    return (
        tf.strings.length(tf.strings.as_string(x)) + tf.cast(x @ tf.transpose(x), tf.int32)[:, :3]
    )


@pytest.mark.parametrize(
    ("function", "op", "code"),
    [
        (prints, "StringFormat", "tf.print"),
        (calls_python, "EagerPyFunc", "tf.py_function"),
        (makes_strings, "AsString", "as_string"),
    ],
)
def test_the_op_that_xla_cannot_compile_is_named_once(
    function: Callable[..., tf.Tensor], op: str, code: str, rewritten_runs: Runs
) -> None:
    traced, (x, _) = tf.function(function), points_and_weights()
    (message,) = warnings_of(lambda: (traced(x), traced(x)))
    assert f"leaves {function.__name__} as it is" in message
    assert f"XLA cannot compile {op} at {place_of(function, code)}" in message
    assert rewritten_runs == []


def test_what_xla_cannot_compile_is_no_reason_to_warn_where_it_is_small() -> None:
    traced, (x, _) = tf.function(prints), points_and_weights()
    assert [*filter(None, warnings_of(lambda: traced(x), 10_000_000))] == []


def test_a_shape_that_depends_on_data_is_left_alone() -> None:
    def positive(x: tf.Tensor) -> tf.Tensor:
        return tf.boolean_mask(x @ tf.transpose(x), x[:, 0] > 0)

    traced, (x, _) = tf.function(positive), points_and_weights()
    expected = traced(x)
    found: list[tf.Tensor] = []
    (message,) = warnings_of(lambda: found.append(traced(x)))
    assert "leaves positive as it is" in message
    assert_same(found[0], expected)


def test_an_operation_on_another_device_is_named() -> None:
    def elsewhere(x: tf.Tensor) -> tf.Tensor:
        with tf.device("/device:CPU:1"):
            return tf.matmul(x, x, transpose_b=True)

    traced, (x, _) = tf.function(elsewhere), points_and_weights()
    (message,) = warnings_of(lambda: traced(x))
    assert f"MatMul at {place_of(elsewhere, 'return')} on /device:CPU:1" in message
