"""How far rounding may move a program's results: measured, by disturbing a reference in f64.

Monte Carlo arithmetic (Parker, 1997): the program is run with each operand and each result of what
rounds disturbed by a random part of its dtype's unit roundoff, and the results are seen to scatter.
A sum of n terms, in any order, is off by about sqrt(n) roundings (Higham and Mary, "A New Approach
to Probabilistic Rounding Error Analysis", 2019), so the disturbance grows with the longest axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np
import tensorflow as tf

from tests.generated.operation import Kind, Law, kind_of
from tests.generated.program import OPERATIONS, Instruction, Perform, RandomProgram, perform

ROUNDOFF = {
    tf.float16: 2.0**-10,
    tf.bfloat16: 2.0**-7,
    tf.float32: 2.0**-23,
    tf.float64: 2.0**-52,
}

SAMPLES = 3

SAFETY = 8.0
"""Of the scatter: with three samples it is seldom the largest that rounding can do."""


def widen(value: tf.Tensor) -> tf.Tensor:
    """The same in the widest dtype of its kind."""
    kind = kind_of(value.dtype)
    if kind in Kind.FLOAT:
        return tf.cast(value, tf.float64)
    return tf.cast(value, tf.complex128) if kind is Kind.COMPLEX else value


def assert_same(
    program: RandomProgram, found: Sequence[tf.Tensor], expected: Sequence[tf.Tensor]
) -> None:
    """Asserts that results are plain TensorFlow's: those that nothing rounds, bit for bit."""
    allowed = tolerances(program, expected)
    rows = zip(found, expected, program.result_laws, allowed, strict=True)
    for value, plain, law, tolerance in rows:
        assert (value.dtype, value.shape) == (plain.dtype, plain.shape)
        if law is None:
            np.testing.assert_array_equal(widen(value), widen(plain))
        elif law is not Law.RANDOM:
            roundoff = unit_roundoff(value.dtype)
            _assert_close(widen(value).numpy(), widen(plain).numpy(), roundoff, tolerance)


def _assert_close(found: np.ndarray, plain: np.ndarray, rtol: float, atol: float) -> None:
    """NumPy's, but for complex infinities: their other part may be rounded as well."""
    infinite = np.isinf(found) & np.isinf(plain)
    for one, other in (
        (found[~infinite], plain[~infinite]),
        (found[infinite].real, plain[infinite].real),
        (found[infinite].imag, plain[infinite].imag),
    ):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)


def unit_roundoff(dtype: tf.DType) -> float:
    """Twice what one rounding can do, relatively; 0 for what does not round."""
    return ROUNDOFF.get(dtype.real_dtype, 0.0)


def tolerances(program: RandomProgram, expected: Sequence[tf.Tensor]) -> list[float]:
    """For each result, how far rounding may move its elements.

    NaN and infinities hide how elements near them scatter: the program is run without as well.
    Terms that cancel inside one instruction (in the gradient of a softmax over equal values) do so
    in each disturbed run, too: there it tells how far plain TensorFlow's own results are off.

    expected: those results.
    """
    reference = _reference(program, perform)
    found = _scatter(program, reference)
    if program.special:
        without = program._replace(special=())
        others = _scatter(without, _reference(without, perform))
    else:
        plain = [widen(value).numpy() for value in expected]
        others = [*map(_distance, plain, reference)]
    return [SAFETY * each for each in map(max, found, others)]


def _scatter(program: RandomProgram, reference: Sequence[np.ndarray]) -> list[float]:
    scatter = [0.0] * len(reference)
    for seed in range(SAMPLES):
        disturbed = _reference(program, Disturbance(seed))
        scatter = [
            max(largest, _distance(value, other))
            for largest, value, other in zip(scatter, reference, disturbed, strict=True)
        ]
    return scatter


def _reference(program: RandomProgram, step: Perform) -> list[np.ndarray]:
    arguments = [widen(tf.convert_to_tensor(value)) for value in program.values()]
    results = program.evaluate(arguments, lambda *operands: widen(step(*operands)))
    return [result.numpy() for result in results]


def _distance(value: np.ndarray, other: np.ndarray) -> float:
    """Between the elements that are finite in both."""
    if value.dtype.kind not in "fc":
        return 0.0
    finite = np.isfinite(value) & np.isfinite(other)
    return float(np.abs(value[finite] - other[finite]).max(initial=0))


class Disturbance:
    """Performs instructions in f64, with operands and results disturbed as rounding would."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)

    def __call__(self, instruction: Instruction, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        operation = OPERATIONS[instruction.operation]
        plain = perform(instruction, x, y)
        if operation.law not in (Law.SMOOTH, Law.KINKED):
            return plain
        terms = max(longest_sum(value, plain) for value in (x, y)[: operation.operands])
        size = sqrt(terms) * unit_roundoff(tf.as_dtype(instruction.dtype))
        disturbed = [self._disturb(value, size) for value in (x, y)]
        result = self._disturb(widen(perform(instruction, *disturbed)), size)
        if operation.cancels is not None:
            result += self._disturb(operation.cancels(x, y), size) - operation.cancels(x, y)
        return result

    def _disturb(self, value: tf.Tensor, size: float) -> tf.Tensor:
        """The value, and on the way back its gradient, each disturbed relatively by `size`."""
        if not (value.dtype.is_floating or value.dtype.is_complex):
            return value

        @tf.custom_gradient
        def disturb(value: tf.Tensor) -> tuple[tf.Tensor, Any]:
            return value * self._factors(value, size), lambda g: g * self._factors(g, size)

        return disturb(value)

    def _factors(self, value: tf.Tensor, size: float) -> tf.Tensor:
        return tf.cast(1 + size * self.generator.uniform(-1, 1, value.shape), value.dtype)


def longest_sum(operand: tf.Tensor, result: tf.Tensor) -> int:
    """The most terms that a sum over axes of the operand has."""
    return max(1, *operand.shape, operand.shape.num_elements() // result.shape.num_elements())
