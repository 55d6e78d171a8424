"""Gradients of functions that are cut, to what they capture, are TensorFlow's own."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

import tf_memsafe
from tests.gradients import Runs, arguments, check, laplace
from tests.programs import LIMIT, POINTS, assert_same, compiled
from tf_memsafe.hlo import op
from tf_memsafe.hlo.op import by_opcode
from tf_memsafe.proof import Proof


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


def test_sparse_gradients_of_a_variable(rewritten_runs: Runs) -> None:
    table, (_, v, scale) = tf.Variable(POINTS), arguments()
    function = compiled(lambda rows, v: laplace(tf.gather(table, rows)[:, 0], v, scale))
    rows = tf.range(100) // 2

    def gradients() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(function(rows, v) ** 2)
        return tf.convert_to_tensor(tape.gradient(loss, table))

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
