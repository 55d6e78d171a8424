"""`explain` says what a call would do, for every kind of function, and does nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import COUNT, LIMIT, POINTS, WEIGHTS, compiled, kernel, points_and_weights
from tf_memsafe import Report, explain
from tf_memsafe.executable import Executable
from tf_memsafe.xla import ConcreteFunction, XlaCompileError

F64 = tf.float64
ORIGINAL = ConcreteFunction._call_flat
SPECS = [tf.TensorSpec([COUNT, 3], F64), tf.TensorSpec([COUNT, 4], F64)]

FUNCTIONS = {
    "plain": kernel,
    "not compiled": tf.function(kernel),
    "compiled": compiled(kernel),
    "concrete": compiled(kernel).get_concrete_function(*SPECS),
    "decorated": tf_memsafe.function(kernel, memory_limit=LIMIT),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_every_kind_of_function(kind: str) -> None:
    report = explain(FUNCTIONS[kind], *SPECS, memory_limit=LIMIT)
    assert report.name == "kernel"
    assert report.fits
    assert report.memory_limit == LIMIT
    assert report.peak_after <= LIMIT < report.peak_before
    assert len(report.loops) == 1


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (points_and_weights(), {}),
        ((POINTS, SPECS[1]), {}),
        ((SPECS[0],), {"v": WEIGHTS}),
        ((), {"v": SPECS[1], "x": POINTS}),
    ],
    ids=["tensors", "mixed", "keyword", "keywords"],
)
def test_every_kind_of_argument(args: Any, kwargs: Any) -> None:
    report = explain(FUNCTIONS["compiled"], *args, memory_limit=LIMIT, **kwargs)
    assert (report.fits, len(report.loops)) == (True, 1)


def test_nested_and_python_arguments() -> None:
    def scaled(given: dict[str, Any], scale: float, *, shift: tf.Tensor) -> tf.Tensor:
        return scale * kernel(given["x"], given["pair"][0]) + shift

    given = {"x": SPECS[0], "pair": (SPECS[1], None)}
    report = explain(scaled, given, 2.0, shift=tf.TensorSpec([], F64), memory_limit=LIMIT)
    assert (report.name, report.fits, len(report.loops)) == ("scaled", True, 1)


def test_shapes_that_a_signature_leaves_open() -> None:
    signature = [tf.TensorSpec([None, size], F64) for size in (3, 4)]
    function = compiled(kernel, input_signature=signature)
    report = explain(function, *SPECS)
    assert report.peak_before > 8 * COUNT**2
    assert explain(function, POINTS[:50], WEIGHTS[:50]).peak_before < report.peak_before
    concrete = function.get_concrete_function()
    assert explain(concrete, POINTS, WEIGHTS).peak_before == report.peak_before


def test_a_shape_has_to_be_known() -> None:
    with pytest.raises(ValueError, match="kernel needs 2 fully known shapes"):
        explain(kernel, tf.TensorSpec([None, 3], F64), SPECS[1])


def test_a_method() -> None:
    class Model(tf.Module):
        def __init__(self) -> None:
            self.v = tf.Variable(WEIGHTS)

        @tf.function(jit_compile=True)
        def predict(self, x: tf.Tensor) -> tf.Tensor:
            return kernel(x, self.v)

        @tf_memsafe.function(memory_limit=LIMIT)
        def limited(self, x: tf.Tensor) -> tf.Tensor:
            return kernel(x, self.v)

    assert len(explain(Model().predict, SPECS[0], memory_limit=LIMIT).loops) == 1
    assert len(explain(Model().limited, SPECS[0]).loops) == 1


# --- which limit ---


def test_no_limit() -> None:
    report = explain(kernel, *SPECS)
    assert report.memory_limit is None
    assert report.fits
    assert report.peak_after == report.peak_before
    assert report.loops == ()


def test_the_limit_in_force() -> None:
    tf_memsafe.set_memory_limit(LIMIT)
    assert explain(kernel, *SPECS).memory_limit == LIMIT
    with tf_memsafe.memory_limit("50kB"):
        assert explain(kernel, *SPECS).memory_limit == 50_000
    assert explain(kernel, *SPECS, memory_limit="60 kB").memory_limit == 60_000


def test_the_functions_own_limit() -> None:
    function = FUNCTIONS["decorated"]
    with tf_memsafe.memory_limit("50kB"):
        assert explain(function, *SPECS).memory_limit == LIMIT
        assert explain(function, *SPECS, memory_limit="60kB").memory_limit == 60_000
        assert explain(tf_memsafe.function(kernel), *SPECS).memory_limit == 50_000


@pytest.mark.parametrize("limit", [0, "lots", -1])
def test_an_invalid_limit(limit: Any) -> None:
    with pytest.raises(ValueError, match="is not a memory limit"):
        explain(kernel, *SPECS, memory_limit=limit)


# --- what it does not do ---


@pytest.mark.parametrize("limit", [1, 8_900, 10_000])
def test_it_never_raises_for_a_limit(limit: int) -> None:
    report = explain(kernel, *SPECS, memory_limit=limit)
    assert report.fits is (report.peak_after <= limit)


def test_it_allocates_nothing() -> None:
    count = 100_000  # a matrix of 80 GB
    specs = [tf.TensorSpec([count, size], F64) for size in (3, 4)]
    report = explain(kernel, *specs, memory_limit="100MB")
    assert report.peak_before > 8 * count**2
    assert report.fits


def test_it_runs_nothing(rewritten_runs: list[Executable]) -> None:
    calls, (x, v) = tf.Variable(0), points_and_weights()

    @tf.function(jit_compile=True)
    def counting(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        calls.assign_add(1)
        return kernel(x, v)

    explain(counting, x, v, memory_limit=LIMIT)
    assert calls.numpy() == 0
    assert rewritten_runs == []
    assert ConcreteFunction._call_flat is ORIGINAL


def test_it_says_what_the_call_does(rewritten_runs: list[Executable]) -> None:
    function = compiled(kernel)
    report = explain(function, POINTS, WEIGHTS, memory_limit=LIMIT)
    with tf_memsafe.memory_limit(LIMIT):
        function(POINTS, WEIGHTS)
    (executable,) = rewritten_runs
    assert executable.text == report.stablehlo
    assert executable.buffers.peak == report.peak_after


def test_what_xla_cannot_compile() -> None:
    with pytest.raises(XlaCompileError, match="AsString"):
        explain(tf.strings.as_string, np.ones(2))


def test_a_report_is_what_it_returns() -> None:
    assert isinstance(explain(tf.sin, np.ones(2)), Report)
