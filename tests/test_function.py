"""Calls of functions that have to be cut: results are what the function gives without a limit."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import (
    LIMIT,
    POINTS,
    WEIGHTS,
    assert_same,
    compiled,
    kernel,
    points_and_weights,
    tensors,
)
from tf_memsafe.executable import Executable
from tf_memsafe.proof import Proof

Runs = list[Executable]
Named = namedtuple("Named", ["x", "v"])


def check(function: Any, *args: Any, runs: Runs, **kwargs: Any) -> None:
    """Asserts that the function gives the same when it is cut, and that it is cut."""
    expected = function(*args, **kwargs)
    assert runs == []
    with tf_memsafe.memory_limit(LIMIT):
        found = function(*args, **kwargs)
    assert_same(found, expected)
    assert len(runs) == 1
    assert runs[0].buffers.peak <= LIMIT


# --- arguments ---


def test_tensors(rewritten_runs: Runs) -> None:
    check(compiled(kernel), *points_and_weights(), runs=rewritten_runs)


def test_arrays(rewritten_runs: Runs) -> None:
    check(compiled(kernel), POINTS, WEIGHTS, runs=rewritten_runs)


def test_keywords(rewritten_runs: Runs) -> None:
    x, v = points_and_weights()
    check(compiled(kernel), v=v, x=x, runs=rewritten_runs)


def test_python_arguments_and_defaults(rewritten_runs: Runs) -> None:
    def scaled(
        x: Any, v: Any, scale: float = 2.0, name: str | None = None, *, sign: int = 1
    ) -> Any:
        return tf.multiply(kernel(x, v), sign * scale, name)

    function = compiled(scaled)
    check(function, *points_and_weights(), 3.0, sign=-1, runs=rewritten_runs)
    rewritten_runs.clear()
    check(function, *points_and_weights(), runs=rewritten_runs)


def test_nested_arguments(rewritten_runs: Runs) -> None:
    x, v = points_and_weights()
    function = compiled(lambda given: kernel(given["pair"].x, given["pair"].v) + given["shift"][1])
    check(function, {"pair": Named(x, v), "shift": [None, 2.0]}, runs=rewritten_runs)


def test_a_method(rewritten_runs: Runs) -> None:
    class Model(tf.Module):
        def __init__(self) -> None:
            self.x, self.v = points_and_weights()

        @tf.function(jit_compile=True)
        def __call__(self, shift: tf.Tensor) -> tf.Tensor:
            return kernel(self.x, self.v) + shift

    check(Model(), tf.constant(1.0, tf.float64), runs=rewritten_runs)


def test_captured_tensors_and_variables(rewritten_runs: Runs) -> None:
    x, v = map(tf.Variable, points_and_weights())
    shift = tf.constant(3.0, tf.float64)
    function = compiled(lambda scale: scale * kernel(x, v) + shift)
    check(function, tf.constant(2.0, tf.float64), runs=rewritten_runs)
    v.assign(v + 1)
    rewritten_runs.clear()
    check(function, tf.constant(2.0, tf.float64), runs=rewritten_runs)


def test_large_constants(rewritten_runs: Runs) -> None:
    others = np.random.default_rng(2).normal(size=(800, 3))  # 19 kB, of a matrix of 640 kB

    def nearest(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_min(tf.reduce_sum(tf.abs(x[:, None] - tf.constant(others)), -1), 1)

    check(compiled(nearest), POINTS, runs=rewritten_runs)
    assert rewritten_runs[0].constants[0].shape == others.shape


def test_no_arguments(rewritten_runs: Runs) -> None:
    x, v = points_and_weights()
    check(compiled(lambda: kernel(x, v)), runs=rewritten_runs)


def test_a_concrete_function(rewritten_runs: Runs) -> None:
    x, v = points_and_weights()
    check(compiled(kernel).get_concrete_function(x, v), x, v, runs=rewritten_runs)


def test_a_variable_as_an_argument_is_left_alone(rewritten_runs: Runs) -> None:
    x, v = points_and_weights()
    function, variable = compiled(kernel), tf.Variable(x)
    with (
        tf_memsafe.memory_limit(LIMIT),
        pytest.warns(tf_memsafe.MemorySafetyWarning, match=r"tf\.Variable .* as an argument"),
    ):
        found = function(variable, v)
    assert_same(found, function(variable, v))
    assert rewritten_runs == []


# --- results ---


def test_nested_results(rewritten_runs: Runs) -> None:
    def function(x: Any, v: Any) -> Any:
        result = kernel(x, v)
        return {"b": Named(result, None), "a": [tf.shape(result), (result > 1, ())]}

    check(compiled(function), *points_and_weights(), runs=rewritten_runs)


def test_composite_results(rewritten_runs: Runs) -> None:
    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        result = kernel(x, v)
        return tf.RaggedTensor.from_row_lengths(result, [60, 40]), tf.IndexedSlices(
            result, tf.range(100)
        )

    check(compiled(function), *points_and_weights(), runs=rewritten_runs)


def test_several_results_of_an_op(rewritten_runs: Runs) -> None:
    function = compiled(lambda x: tf.math.top_k(x @ tf.transpose(x), 3))
    check(function, POINTS, runs=rewritten_runs)
    with tf_memsafe.memory_limit(LIMIT):
        assert function(POINTS).indices.shape == (100, 3)


def test_no_results(rewritten_runs: Runs) -> None:
    x, v = points_and_weights()
    total = tf.Variable(tf.zeros_like(v))
    function = compiled(lambda: [total.assign(kernel(x, v)), None][1])
    with tf_memsafe.memory_limit(LIMIT):
        assert function() is None
    assert len(rewritten_runs) == 1
    assert_same(total.read_value(), kernel(x, v))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "complex64"])
def test_other_types(dtype: str, rewritten_runs: Runs) -> None:
    """Small whole numbers, so that every type is exact; 150 of them, 2 bytes each, need cutting."""
    x = np.random.default_rng(0).integers(-2, 3, [150, 3])
    pairs = compiled(lambda x: tf.reduce_sum((x[:, None] - x[None]) ** 2 * x[0, 0], -1) @ x)
    argument = tf.cast(x, dtype)
    expected = pairs(argument)
    with tf_memsafe.memory_limit(30_000):
        found = pairs(argument)
    assert len(rewritten_runs) == 1
    assert found.dtype == expected.dtype
    assert tf.reduce_all(found == expected)


# --- one program for each signature ---


def test_one_program_for_each_signature(proofs: list[Proof], rewritten_runs: Runs) -> None:
    function = compiled(kernel)
    with tf_memsafe.memory_limit(LIMIT):
        for _ in range(3):
            function(*points_and_weights())
        assert len(proofs) == 1
        function(*tensors(POINTS[:90], WEIGHTS[:90]))
        function(*points_and_weights())
        assert len(proofs) == 2
    assert len(rewritten_runs) == 5
    assert len(set(map(id, rewritten_runs))) == 2


def test_one_program_for_each_shape_of_a_signature(
    proofs: list[Proof], rewritten_runs: Runs
) -> None:
    specs = [tf.TensorSpec([None, size], tf.float64) for size in (3, 4)]
    function = compiled(kernel, input_signature=specs)
    for count in (100, 90, 100, 80):
        arguments = tensors(POINTS[:count], WEIGHTS[:count])
        expected = function(*arguments)
        with tf_memsafe.memory_limit(LIMIT):
            assert_same(function(*arguments), expected)
    assert function.experimental_get_tracing_count() == 1
    arguments_of = [run.buffers.bytes_of("argument") for run in rewritten_runs]
    assert arguments_of == [5600, 5040, 5600, 4480]
    assert len(proofs) == 3


def test_each_limit_has_its_own_program(proofs: list[Proof], rewritten_runs: Runs) -> None:
    function, arguments = compiled(kernel), points_and_weights()
    for limit in (LIMIT, LIMIT // 2, LIMIT):
        with tf_memsafe.memory_limit(limit):
            function(*arguments)
    first, second, third = rewritten_runs
    assert first is third
    assert first.buffers.peak <= LIMIT
    assert second.buffers.peak <= LIMIT // 2
    assert len(proofs) == 2


# --- functions that fit ---


def test_a_function_that_fits_is_not_rewritten(proofs: list[Proof], rewritten_runs: Runs) -> None:
    x, v = points_and_weights()
    function = compiled(kernel)
    expected = function(x, v)
    with tf_memsafe.memory_limit("1MB"):
        found = [function(x, v) for _ in range(3)]
    (proof,) = proofs
    assert proof.executable is None
    assert rewritten_runs == []
    assert all(tf.reduce_all(one == expected) for one in found)


def test_a_limit_equal_to_the_peak_is_kept_to(rewritten_runs: Runs) -> None:
    arguments, function = points_and_weights(), compiled(kernel)
    peak = tf_memsafe.explain(function, *arguments).peak_before
    with tf_memsafe.memory_limit(peak):
        function(*arguments)
    assert rewritten_runs == []
    with tf_memsafe.memory_limit(peak - 1):
        function(*arguments)
    assert rewritten_runs[0].buffers.peak < peak
