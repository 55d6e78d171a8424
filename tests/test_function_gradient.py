"""First and second gradients of functions that are cut are TensorFlow's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import LIMIT, POINTS, WEIGHTS, assert_same, compiled
from tf_memsafe.hlo import op
from tf_memsafe.hlo.op import by_opcode
from tf_memsafe.proof import Executable, Proof

Runs = list[Executable]


def check(call: Callable[[], Any], runs: Runs) -> None:
    """Asserts that `call` gives the same when its functions are cut, and that they are."""
    expected = call()
    assert runs == []
    with tf_memsafe.memory_limit(LIMIT):
        found = call()
    assert_same(found, expected)
    assert len(runs) >= 2  # forward and backward
    assert all(run.buffers.peak <= LIMIT for run in runs)


def laplace(x: tf.Tensor, v: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    """A kernel that is quick to compile: of 100 numbers it takes 87 kB, its gradient 251 kB."""
    return tf.exp(-scale * tf.abs(x[:, None] - x[None])) @ v


LAPLACE = compiled(laplace)
"""Compiled once for the tests that call it with the same shapes."""


def f64(value: Any) -> tf.Tensor:
    return tf.constant(value, tf.float64)


def arguments() -> list[tf.Tensor]:
    return [f64(POINTS[:, 0]), f64(WEIGHTS), f64(2.0)]


def test_to_arguments(rewritten_runs: Runs) -> None:
    given = arguments()

    def gradients() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(given)
            loss = tf.reduce_sum(LAPLACE(*given) ** 2)
        return loss, tape.gradient(loss, given)

    check(gradients, rewritten_runs)


def test_to_captured_tensors_and_variables(rewritten_runs: Runs) -> None:
    x, v, _ = arguments()
    scale, frozen = tf.Variable(2.0, dtype=tf.float64), tf.Variable(v, trainable=False)
    function = compiled(lambda: laplace(x, frozen, scale))

    def gradients() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(function() ** 2)
        assert [id(variable) for variable in tape.watched_variables()] == [id(scale)]
        return tape.gradient(loss, [x, scale, frozen])

    check(gradients, rewritten_runs)


def test_only_to_variables_that_are_watched_by_hand(rewritten_runs: Runs) -> None:
    x, v, _ = arguments()
    scale, shift = (tf.Variable(2.0, dtype=tf.float64) for _ in range(2))
    function = compiled(lambda: laplace(x, v, scale) + shift)

    def gradients() -> Any:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(shift)
            loss = tf.reduce_sum(function() ** 2)
        return tape.gradient(loss, [scale, shift])

    check(gradients, rewritten_runs)


def test_a_tape_that_watches_nothing_costs_nothing(rewritten_runs: Runs) -> None:
    given = arguments()
    with tf_memsafe.memory_limit(LIMIT), tf.GradientTape() as tape:
        result = LAPLACE(*given)
    assert tape.gradient(result, given[0]) is None
    assert len(rewritten_runs) == 1


def test_of_some_of_the_results(rewritten_runs: Runs) -> None:
    def several(x: tf.Tensor, v: tf.Tensor) -> Any:
        result = laplace(x, v, f64(2.0))
        return {"result": result, "large": result > 1, "sum": [tf.reduce_sum(v), tf.argmax(x)]}

    function, (x, v, _) = compiled(several), arguments()

    def gradients() -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([x, v])
            results = function(x, v)
        used = (results["result"], results["sum"][0], results["large"])
        return [tape.gradient(one, [x, v], unconnected_gradients="zero") for one in used]

    check(gradients, rewritten_runs)


def test_to_inputs_that_the_result_does_not_depend_on(rewritten_runs: Runs) -> None:
    function = compiled(lambda given, unused, count: laplace(*given) * tf.cast(count, tf.float64))
    given, unused = arguments(), f64(1.0)

    def gradients() -> Any:
        with tf.GradientTape() as tape:
            tape.watch([given, unused])
            loss = tf.reduce_sum(function(given, unused, tf.constant(3)))
        return tape.gradient(loss, [*given, unused])

    check(gradients, rewritten_runs)
    assert gradients()[3] is None


def test_no_float_results(rewritten_runs: Runs) -> None:
    function, given = compiled(lambda *given: tf.argmax(laplace(*given), 1)), arguments()
    expected = function(*given)
    with tf_memsafe.memory_limit(LIMIT), tf.GradientTape() as tape:
        tape.watch(given)
        found = function(*given)
    assert tape.gradient(found, given) == [None] * 3
    assert_same(found, expected)
    assert rewritten_runs


def test_persistent_tape(rewritten_runs: Runs) -> None:
    given = arguments()

    def gradients() -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(given)
            y = LAPLACE(*given)
            first, second = tf.reduce_sum(y), tf.reduce_sum(y**2)
        return [tape.gradient(loss, given) for loss in (first, second, first)]

    check(gradients, rewritten_runs)
    assert len(rewritten_runs) == 4


def test_output_gradients(rewritten_runs: Runs) -> None:
    given = arguments()

    def gradients() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(given)
            y = LAPLACE(*given)
        return tape.gradient(y, given, output_gradients=tf.cos(y))

    check(gradients, rewritten_runs)


def test_at_the_values_of_the_forward_call(rewritten_runs: Runs, proofs: list[Proof]) -> None:
    x, v, _ = arguments()
    scale = tf.Variable(2.0, dtype=tf.float64)
    function = compiled(lambda: laplace(x, v, scale))

    def gradients() -> Any:
        scale.assign(2.0)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(function() ** 2)
        scale.assign(3.0)
        return tape.gradient(loss, scale)

    check(gradients, rewritten_runs)
    with tf_memsafe.memory_limit(LIMIT):
        gradients()
    assert len(proofs) == 2  # of the function and of its gradient, each once


def test_second_order(rewritten_runs: Runs) -> None:
    x, v, _ = arguments()
    scale = tf.Variable(2.0, dtype=tf.float64)
    function = compiled(lambda x: laplace(x, v, scale))

    def gradients() -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                loss = tf.reduce_sum(function(x) ** 2)
            first = inner.gradient(loss, scale)
        return first, outer.gradient(first, [x, scale])

    check(gradients, rewritten_runs)


def test_complex_numbers(rewritten_runs: Runs) -> None:
    def phases(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        angles = tf.cast(x[:, None] - x[None], v.dtype)
        return tf.exp(1j * angles) @ v

    function, x = compiled(phases), f64(POINTS[:, 0])
    v = tf.complex(WEIGHTS[:, :2], WEIGHTS[:, 2:])

    def gradients() -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, v])
            y = function(x, v)
        return tape.gradient(y, [x, v])

    check(gradients, rewritten_runs)


def test_gradients_inside_the_function(rewritten_runs: Runs) -> None:
    @tf.function(jit_compile=True)
    def function(given: list[tf.Tensor]) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(given)
            loss = tf.reduce_sum(laplace(*given) ** 2)
        return loss, tape.gradient(loss, given)

    expected = function(arguments())
    with tf_memsafe.memory_limit(LIMIT):
        assert_same(function(arguments()), expected)
    assert len(rewritten_runs) == 1


def test_sparse_gradients_of_a_variable(rewritten_runs: Runs) -> None:
    table, (_, v, scale) = tf.Variable(POINTS), arguments()
    function = compiled(lambda rows, v: laplace(tf.gather(table, rows)[:, 0], v, scale))
    rows = tf.range(100) // 2

    def gradients() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(function(rows, v) ** 2)
        return tf.convert_to_tensor(tape.gradient(loss, table))

    check(gradients, rewritten_runs)


def test_sparse_gradients_of_the_result(rewritten_runs: Runs) -> None:
    given = arguments()

    def gradients() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(given)
            loss = tf.reduce_sum(tf.gather(LAPLACE(*given), [1, 1, 5]))
        return tape.gradient(loss, given)

    check(gradients, rewritten_runs)


def test_a_variable_that_only_the_gradient_reads(rewritten_runs: Runs) -> None:
    weight = tf.Variable(3.0, dtype=tf.float64)

    @tf.custom_gradient
    def weighted(y: tf.Tensor) -> Any:
        return y, lambda upstream, variables=None: (upstream * weight, [])

    function, given = compiled(lambda *given: weighted(laplace(*given))), arguments()

    def gradients() -> Any:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(given[1])
            y = function(*given)
        return tape.gradient(y, given[1])

    check(gradients, rewritten_runs)


def test_an_unknown_op_in_the_gradient_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow's own gradient is taken, at the variable's value in the forward call."""
    by_opcode("sine")  # all are loaded
    monkeypatch.delitem(op._by_opcode, "cosine")
    x, v, _ = arguments()
    scale = tf.Variable(2.0, dtype=tf.float64)
    function = compiled(lambda: laplace(x, v, tf.sin(scale)))

    def gradients() -> Any:
        scale.assign(2.0)
        with tf.GradientTape() as tape:
            y = function()
        scale.assign(3.0)
        return tape.gradient(y, scale), scale.read_value()

    expected = gradients()
    with (
        tf_memsafe.memory_limit(LIMIT),
        pytest.warns(tf_memsafe.MemorySafetyWarning, match="gradient_of_.*'cosine'"),
    ):
        found = gradients()
    assert_same(found, expected)


def test_a_function_that_fits_with_all_it_keeps_is_not_rewritten(rewritten_runs: Runs) -> None:
    given = arguments()

    def gradients() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(given)
            y = LAPLACE(*given)
        return tf.stack([tf.reduce_sum(one) for one in tape.gradient(y, given)])

    expected = gradients()
    with tf_memsafe.memory_limit("10MB"):
        assert tf.reduce_all(gradients() == expected)
    assert rewritten_runs == []


def test_a_gradient_that_cannot_be_cut_is_an_error() -> None:
    def root(x: tf.Tensor) -> tf.Tensor:
        return tf.linalg.cholesky(x @ tf.transpose(x) + 9 * tf.eye(100, dtype=x.dtype))[:, :1]

    function, x = compiled(root), f64(POINTS)
    with tf_memsafe.memory_limit(tf_memsafe.explain(function, x).peak_before):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        with pytest.raises(tf_memsafe.MemoryLimitError, match=r"^gradient_of_root needs at least"):
            tape.gradient(y, x)
