"""A function that fits is rewritten where that clearly saves time or memory; or left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import assert_same, compiled, gradients
from tf_memsafe import MemorySafetyWarning, explain, xla
from tf_memsafe.executable import Executable
from tf_memsafe.proof import Proof
from tf_memsafe.xla import ConcreteFunction, XlaCompileError

F64 = tf.float64
ROWS = 400
"""The product of two square matrices of this size takes 16 million units of the planner's time."""

SPECS = [tf.TensorSpec(shape, F64) for shape in ([ROWS, ROWS], [ROWS, ROWS], [ROWS, 1])]
AMPLE = "1GB"
"""More than an upper bound of what `chain` needs: it is not compiled to see that it fits."""

Runs = list[Executable]


def chain(a: tf.Tensor, b: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    """A matrix product that the other order does without."""
    return (a @ b) @ v


def matrices() -> list[tf.Tensor]:
    generator = np.random.default_rng(0)
    return [tf.constant(generator.normal(size=spec.shape)) for spec in SPECS]


def check_rewritten(function: Any, arguments: list[tf.Tensor], runs: Runs) -> None:
    expected = function(*arguments)
    with tf_memsafe.memory_limit(AMPLE):
        found = [function(*arguments) for _ in range(2)]
    assert_same(found, [expected] * 2)
    assert len(runs) == 2


def check_untouched(function: Any, arguments: list[tf.Tensor], runs: Runs) -> None:
    expected = function(*arguments)
    with tf_memsafe.memory_limit(AMPLE):
        assert_same(function(*arguments), expected)
    assert runs == []


# --- rewritten ---


def test_less_time(
    rewritten_runs: Runs, proofs: list[Proof], measured: list[ConcreteFunction]
) -> None:
    check_rewritten(compiled(chain), matrices(), rewritten_runs)
    (proof,) = proofs
    assert {each.optimizer for each in proof.rewrites} == {"chain"}
    assert len(measured) == 1  # the rewritten program alone
    assert proof.fits
    assert proof.fits_as_written


def test_the_rewritten_program_keeps_to_the_limit() -> None:
    before = explain(chain, *SPECS).peak_before
    report = explain(chain, *SPECS, memory_limit=before)
    assert report.peak_before == before
    assert report.peak_after < before
    assert report.fits
    assert "chain: " in str(report.rewrites[0])
    assert f"at {__file__}" in str(report.rewrites[0])
    assert "rewritten:" in str(report)
    assert report.loops == ()


def test_variables_are_assigned_once(rewritten_runs: Runs) -> None:
    a, b, v = matrices()
    calls = tf.Variable(0)

    @tf.function(jit_compile=True)
    def counting(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        calls.assign_add(1)
        return chain(a, b, v)

    with tf_memsafe.memory_limit(AMPLE):
        counting(a, b)
    assert calls.numpy() == 1
    assert len(rewritten_runs) == 1


def test_a_gradient_inside_of_the_function(rewritten_runs: Runs) -> None:
    check_rewritten(compiled(gradients(chain)), matrices(), rewritten_runs)


# --- left alone ---


def test_nothing_fires(rewritten_runs: Runs, measured: list[ConcreteFunction]) -> None:
    function = compiled(lambda a, b, v: tf.nn.softmax(a @ b) + v)
    check_untouched(function, matrices(), rewritten_runs)
    assert measured == []


def test_the_canonical_form_alone(rewritten_runs: Runs, measured: list[ConcreteFunction]) -> None:
    function = compiled(lambda a, b, v: tf.transpose(tf.transpose(a) @ b) ** 2 + v)
    check_untouched(function, matrices(), rewritten_runs)
    assert measured == []


def test_too_little_is_saved(rewritten_runs: Runs, proofs: list[Proof]) -> None:
    check_untouched(compiled(chain), [m[:50, :50] for m in matrices()], rewritten_runs)
    assert proofs[0].rewrites == ()


def test_too_little_of_it_is_saved(rewritten_runs: Runs) -> None:
    def much_else(a: tf.Tensor, b: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        square = a
        for _ in range(8):
            square = tf.tanh(square @ b)
        return square @ v + chain(a, b, v)

    check_untouched(compiled(much_else), matrices(), rewritten_runs)


def test_an_optimizer_that_is_off(rewritten_runs: Runs) -> None:
    function = tf_memsafe.function(chain, optimizer_options={"chain": False})
    check_untouched(function, matrices(), rewritten_runs)


def test_random_numbers(rewritten_runs: Runs) -> None:
    function = compiled(lambda a, b, v: chain(a, b, v) + tf.random.normal(v.shape, dtype=F64))
    with tf_memsafe.memory_limit(AMPLE):
        function(*matrices())
    assert rewritten_runs == []


def test_a_larger_program_than_the_limit() -> None:
    """The product that takes less time has the larger intermediate result."""
    specs = [tf.TensorSpec(shape, F64) for shape in ([100, 4], [4, 100], [100, 20_000])]
    before = explain(chain, *specs).peak_before
    ample = explain(chain, *specs, memory_limit=AMPLE)
    assert ample.peak_after > before
    assert ample.rewrites
    tight = explain(chain, *specs, memory_limit=ample.peak_after - 1)
    assert tight.peak_after == before
    assert tight.rewrites == ()
    assert tight.fits


def test_a_tape_keeps_what_its_backward_pass_needs(rewritten_runs: Runs) -> None:
    function, (a, b, v) = compiled(chain), matrices()

    def gradient() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(v)
            result = function(a, b, v)
        return tape.gradient(result, v)

    expected = gradient()
    with tf_memsafe.memory_limit(AMPLE):
        assert_same(gradient(), expected)
    assert rewritten_runs == []


def test_what_xla_cannot_compile_is_dropped_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, rewritten_runs: Runs
) -> None:
    original = xla.measure

    def measure(function: ConcreteFunction, specs: Any) -> Any:
        if xla.name_of(function) == "run":
            raise XlaCompileError("XLA cannot compile it: for no reason")
        return original(function, specs)

    monkeypatch.setattr(xla, "measure", measure)
    function, arguments = compiled(chain), matrices()
    expected = function(*arguments)
    message = r"drops a program that it wrote for chain: XLA cannot compile it: for no reason"
    with tf_memsafe.memory_limit(AMPLE), pytest.warns(MemorySafetyWarning, match=message) as found:
        assert_same([function(*arguments) for _ in range(2)], [expected] * 2)
    assert len(found) == 1
    assert rewritten_runs == []
    report = explain(chain, *SPECS, memory_limit=AMPLE)
    assert report.failures == ("XLA cannot compile it: for no reason",)
    assert "for no reason" in str(report)
