"""Calls of a compiled function while another function, a loop or a data set is being traced."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import LIMIT, assert_same, compiled, gradients, kernel, points_and_weights
from tf_memsafe.executable import Executable

Runs = list[Executable]
Kernel = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def called(inner: Kernel) -> Kernel:
    """Calls it in a function that XLA cannot compile, so that it is not cut with it."""

    def outer(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        tf.debugging.assert_equal(tf.strings.length(tf.strings.as_string(x[0, 0])) > 0, True)
        return 2 * inner(x, v)

    return tf.function(outer)


def branched(inner: Kernel) -> Kernel:
    def outer(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        is_text = tf.strings.length(tf.strings.as_string(x[0, 0])) > 0
        return tf.cond(is_text, lambda: 2 * inner(x, v), lambda: v)

    return tf.function(outer)


def looped(inner: Kernel) -> Kernel:
    def outer(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        def body(step: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            length = tf.strings.length(tf.strings.as_string(step))
            return step + length, total + inner(x, v)

        return tf.while_loop(lambda step, _: step < 2, body, (0, tf.zeros_like(v)))[1]

    return tf.function(outer)


OUTER = [called, branched, looped]


def quietly(call: Callable[..., Any], *arguments: Any) -> Any:
    """The function around is not held to the limit, and says so: that is not what is tested."""
    with warnings.catch_warnings(), tf_memsafe.memory_limit(LIMIT):
        warnings.simplefilter("ignore", tf_memsafe.MemorySafetyWarning)
        return call(*arguments)


@pytest.mark.parametrize("outer", OUTER)
def test_a_call_inside_is_cut(outer: Callable[[Kernel], Kernel], rewritten_runs: Runs) -> None:
    inner, (x, v) = compiled(kernel), points_and_weights()
    assert_same(quietly(outer(inner), x, v), 2 * kernel(x, v))
    assert rewritten_runs
    assert all(run.peak <= LIMIT for run in rewritten_runs)


@pytest.mark.parametrize("outer", OUTER)
def test_and_so_is_its_gradient(outer: Callable[[Kernel], Kernel], rewritten_runs: Runs) -> None:
    function, (x, v) = outer(compiled(kernel)), points_and_weights()
    assert_same(quietly(gradients(function), x, v), gradients(function)(x, v))
    assert len({id(run) for run in rewritten_runs}) >= 2


def test_a_gradient_taken_inside_of_the_function_around(rewritten_runs: Runs) -> None:
    inner, (x, v) = compiled(kernel), points_and_weights()
    scale = tf.Variable(1.5, dtype=tf.float64)

    def gradients(x: tf.Tensor, v: tf.Tensor) -> Any:
        tf.strings.as_string(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = inner(scale * x, v)
        return tape.gradient(y, (x, scale))

    assert_same(quietly(tf.function(gradients), x, v), gradients(x, v))
    assert rewritten_runs


def test_variables_of_the_function_inside(rewritten_runs: Runs) -> None:
    scale = tf.Variable(1.5, dtype=tf.float64)
    x, v = points_and_weights()

    def scaled(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        return scale * kernel(x, v)

    def gradient(function: Kernel) -> Any:
        with tf.GradientTape() as tape:
            y = function(x, v)
        return tape.gradient(y, scale)

    function = called(compiled(scaled))
    assert_same(quietly(gradient, function), gradient(lambda x, v: 2 * scaled(x, v)))
    assert rewritten_runs


def test_mapped_over_a_data_set(rewritten_runs: Runs) -> None:
    function, (x, v) = compiled(kernel), points_and_weights()
    with tf_memsafe.memory_limit(LIMIT):
        (found,) = tf.data.Dataset.from_tensors((x, v)).map(function)
    assert_same(found, kernel(x, v))
    assert len(rewritten_runs) == 1


def test_mapped_over_a_data_set_of_open_shapes(rewritten_runs: Runs) -> None:
    function, (x, v) = compiled(kernel), points_and_weights()
    with (
        tf_memsafe.memory_limit(LIMIT),
        pytest.warns(tf_memsafe.MemorySafetyWarning, match=r"a shape of \(None, 3\).* argument x"),
    ):
        batches = tf.data.Dataset.from_tensor_slices((x, v)).batch(60).map(function)
    assert [batch.shape[0] for batch in batches] == [60, 40]
    assert rewritten_runs == []


@pytest.mark.parametrize("mapped", [tf.map_fn, tf.vectorized_map])
def test_mapped_over_rows(mapped: Callable[..., Any], rewritten_runs: Runs) -> None:
    function, (x, v) = compiled(kernel), points_and_weights()
    stacked = tf.stack((x, 2 * x))

    @tf.function
    def all_of(stacked: tf.Tensor) -> tf.Tensor:
        tf.strings.as_string(stacked)
        return mapped(lambda each: function(each, v), stacked)

    assert_same(quietly(all_of, stacked), tf.stack((kernel(x, v), kernel(2 * x, v))))
    assert rewritten_runs


def test_what_xla_compiles_around_is_cut_whole(rewritten_runs: Runs) -> None:
    inner, (x, v) = compiled(kernel), points_and_weights()
    outer = compiled(lambda x, v: 2 * inner(x, v))
    with tf_memsafe.memory_limit(LIMIT):
        assert_same(outer(x, v), 2 * kernel(x, v))
    assert len(rewritten_runs) == 1
