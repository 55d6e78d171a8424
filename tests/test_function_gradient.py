"""Gradients of functions that are cut, to their arguments, are TensorFlow's own."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

import tf_memsafe
from tests.gradients import LAPLACE, Runs, arguments, check, f64, laplace
from tests.programs import LIMIT, POINTS, WEIGHTS, assert_same, compiled


def test_to_arguments(rewritten_runs: Runs) -> None:
    given = arguments()

    def gradients() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(given)
            loss = tf.reduce_sum(LAPLACE(*given) ** 2)
        return loss, tape.gradient(loss, given)

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


def test_of_results_that_are_inputs_with_a_signature_of_open_shapes(rewritten_runs: Runs) -> None:
    signature = [tf.TensorSpec(shape, tf.float64) for shape in ([None], [None, None])]
    function = compiled(lambda x, v: (x, laplace(x, v, f64(2.0)), x), input_signature=signature)
    x, v, _ = arguments()

    def gradients() -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, v])
            first, result, second = function(x, v)
            loss = tf.reduce_sum(first) + tf.reduce_sum(result * second[:, None])
        return tape.gradient(loss, [x, v])

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


def test_sparse_gradients_of_the_result(rewritten_runs: Runs) -> None:
    given = arguments()

    def gradients() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(given)
            loss = tf.reduce_sum(tf.gather(LAPLACE(*given), [1, 1, 5]))
        return tape.gradient(loss, given)

    check(gradients, rewritten_runs)


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
