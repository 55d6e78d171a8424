"""Functions that cannot be cut to the limit raise, and those that are not understood warn."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import (
    LIMIT,
    POINTS,
    assert_same,
    compiled,
    kernel,
    place_of,
    points_and_weights,
)
from tf_memsafe import MemoryLimitError, MemorySafetyWarning, xla
from tf_memsafe.executable import Executable
from tf_memsafe.hlo import op
from tf_memsafe.hlo.op import by_opcode
from tf_memsafe.proof import Proof

TOO_LITTLE = 8_900
"""Bytes: the arguments and the result of `kernel` take 8,800."""


def error_of(call: Callable[[], Any], limit: int) -> MemoryLimitError:
    with tf_memsafe.memory_limit(limit), pytest.raises(MemoryLimitError) as caught:
        call()
    return caught.value


# --- MemoryLimitError ---


def test_a_limit_that_cannot_be_kept_to() -> None:
    function, (x, v) = compiled(kernel), points_and_weights()
    error = error_of(lambda: function(x, v), TOO_LITTLE)
    assert isinstance(error, tf.errors.ResourceExhaustedError)
    assert error.memory_limit == TOO_LITTLE
    assert error.smallest_peak is not None
    assert TOO_LITTLE < error.smallest_peak <= LIMIT
    message = str(error)
    assert message.startswith("kernel needs at least")
    assert f"{error.smallest_peak:,} bytes" in message
    assert "8.90 kB (8,900 bytes)" in message
    assert f"Try a limit of {error.smallest_peak:,} bytes or more" in message
    assert "tf_memsafe.explain" in message


def test_the_smallest_peak_is_a_limit_that_works(rewritten_runs: list[Executable]) -> None:
    function, (x, v) = compiled(kernel), points_and_weights()
    smallest = error_of(lambda: function(x, v), TOO_LITTLE).smallest_peak
    expected = kernel(x, v)
    with tf_memsafe.memory_limit(smallest):
        assert_same(function(x, v), expected)
    assert len(rewritten_runs) == 1


def test_a_limit_below_the_arguments() -> None:
    function, (x, v) = compiled(kernel), points_and_weights()
    assert "Its arguments alone take 5.60 kB" in str(error_of(lambda: function(x, v), 5_000))
    assert "Its arguments alone" not in str(error_of(lambda: function(x, v), TOO_LITTLE))


def products(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return x + 1, x @ tf.transpose(x)


def test_a_result_that_is_too_large_is_named() -> None:
    message = str(error_of(lambda: compiled(products)(POINTS), LIMIT))
    assert "Its arguments take 2.40 kB, and its results 82.40 kB:" in message
    line = next(line for line in message.splitlines() if "f64[100, 100]" in line)
    assert "80.00 kB" in line
    assert place_of(products, "return") in line


def factor(x: tf.Tensor) -> tf.Tensor:
    covariance = x @ tf.transpose(x) + tf.eye(100, dtype=x.dtype)
    root = tf.linalg.cholesky(covariance)
    return tf.reduce_sum(root, 0)


def test_the_error_names_what_cannot_be_cut() -> None:
    function, x = compiled(factor), tf.constant(POINTS)
    message = str(error_of(lambda: function(x), LIMIT))
    assert "80.00 kB  f64[100, 100]" in message
    assert "cholesky" in message
    assert place_of(factor, "root = ") in message
    assert "root = tf.linalg.cholesky(covariance)" in message


def test_the_error_is_raised_at_each_call_and_changes_nothing(proofs: list[Proof]) -> None:
    calls = tf.Variable(0)

    @tf.function(jit_compile=True)
    def function(x: tf.Tensor) -> tf.Tensor:
        calls.assign_add(1)
        return factor(x)

    x = tf.constant(POINTS)
    first, second = (error_of(lambda: function(x), LIMIT) for _ in range(2))
    assert str(first) == str(second)
    assert calls.numpy() == 0
    assert len(proofs) == 1
    assert function(x).shape == [100]
    assert calls.numpy() == 1


# --- functions that run as the user wrote them ---


def warnings_of(call: Callable[[], Any], times: int = 3) -> list[warnings.WarningMessage]:
    """What several calls under the limit warn of, however often the same."""
    with warnings.catch_warnings(record=True) as caught, tf_memsafe.memory_limit(LIMIT):
        warnings.simplefilter("always")
        for _ in range(times):
            call()
    return [warning for warning in caught if warning.category is MemorySafetyWarning]


def call_with(function: Any, arguments: Any) -> Any:
    return function(*arguments)


def assert_left_alone(function: Any, *arguments: Any, reason: str) -> None:
    """Asserts that the function runs as without a limit, and warns once at the line that calls."""
    expected, found = function(*arguments), []
    (warning,) = warnings_of(lambda: found.append(call_with(function, arguments)))
    assert reason in str(warning.message)
    assert f"{warning.filename}:{warning.lineno}" == place_of(call_with, "return")
    for result in found:
        assert_same(result, expected)


def test_many_shapes_are_one_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    by_opcode("sine")  # all are loaded
    monkeypatch.delitem(op._by_opcode, "sine")
    function = compiled(lambda x, v: kernel(tf.sin(x), v))
    other = compiled(lambda x, v: kernel(tf.sin(x), v) + 1)
    x, v = points_and_weights()

    def calls() -> None:
        for count in (100, 99, 98):
            function(x[:count], v[:count])

    assert len(warnings_of(calls)) == 1
    assert len(warnings_of(lambda: other(x, v))) == 1


def test_two_causes_of_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    function, (x, v) = compiled(kernel), points_and_weights()
    by_opcode("exponential")
    for opcode in ("exponential", "dot"):
        with monkeypatch.context() as context:
            context.delitem(op._by_opcode, opcode)
            (warning,) = warnings_of(partial(function, x, v))
        assert f"'{opcode}'" in str(warning.message)
        x, v = x[1:], v[1:]


def test_programs_that_xla_cannot_compile_are_not_passed_over_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = xla.measure

    def measure(function: Any, specs: Any) -> Any:
        if xla.name_of(function) == "run":
            raise xla.XlaCompileError("XLA cannot compile it: for no reason")
        return original(function, specs)

    tf_memsafe.set_memory_limit("1GB")  # checks TensorFlow with a program of its own
    monkeypatch.setattr(xla, "measure", measure)
    function, (x, v) = compiled(kernel), points_and_weights()
    found = warnings_of(lambda: error_of(lambda: function(x, v), LIMIT))
    (warning,) = found
    assert "drops a program that it wrote for kernel: XLA cannot" in str(warning.message)
    message = str(error_of(lambda: function(x, v), LIMIT))
    assert "A program was dropped: XLA cannot compile it: for no reason" in message


def test_an_unknown_op_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    by_opcode("sine")  # all are loaded
    monkeypatch.delitem(op._by_opcode, "sine")
    function = compiled(lambda x, v: kernel(tf.sin(x), v))
    assert_left_alone(function, *points_and_weights(), reason=f"'sine' (Sin at {__file__}:")


def test_a_shape_that_depends_on_data() -> None:
    function = compiled(lambda x, v: tf.reduce_sum(tf.boolean_mask(kernel(x, v), v[:, 0] > 0), 0))
    assert_left_alone(function, *points_and_weights(), reason="the size of what Where at ")


def test_an_unknown_op_in_a_function_that_fits_is_no_reason_to_warn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_opcode("sine")
    monkeypatch.delitem(op._by_opcode, "sine")
    function, x = compiled(tf.sin), tf.constant(POINTS)
    assert warnings_of(lambda: function(x)) == []


def test_what_xla_cannot_compile_fails_as_without_a_limit() -> None:
    function = compiled(lambda x: tf.py_function(tf.sin, [x], tf.float64))
    x = tf.constant(POINTS)
    errors: list[str] = []

    def call() -> None:
        with pytest.raises(tf.errors.OpError) as caught:
            function(x)
        errors.append(str(caught.value))

    call()
    (warning,) = warnings_of(call)
    assert f"XLA cannot compile EagerPyFunc at {__file__}" in str(warning.message)
    assert len(errors) == 4
    assert all("EagerPyFunc" in error for error in errors)


@pytest.mark.parametrize("made", [tf.function, compiled], ids=["plain", "compiled"])
def test_the_smallest_limit_of_a_function_that_assigns(made: Callable[..., Any]) -> None:
    """Compiled by itself it writes over its variable; the program in its place has a new value."""
    total, x = tf.Variable(tf.zeros([300, 300])), tf.ones([300, 300])
    function = made(lambda x: total.assign(total + x))

    def smallest_under(limit: int) -> int | None:
        with tf_memsafe.memory_limit(limit), pytest.raises(tf_memsafe.MemoryLimitError) as caught:
            function(x)
        smallest: int | None = caught.value.smallest_peak
        return smallest

    smallest = smallest_under(1)
    assert smallest is not None
    assert smallest_under(smallest - 1) == smallest
    with tf_memsafe.memory_limit(smallest):
        function(x)
    assert float(total[0, 0]) == 1
