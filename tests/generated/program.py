"""Random TensorFlow programs, drawn from every op family, for the property tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tests.generated import control, movement, numerics, pointwise
from tests.generated.operation import Kind, Law, Operation, kind_of

OPERATIONS: dict[str, Operation] = {
    **pointwise.OPERATIONS,
    **movement.OPERATIONS,
    **numerics.OPERATIONS,
    **control.OPERATIONS,
}
NAMES = tuple(OPERATIONS)

LARGEST = 20_000
"""Elements of the largest tensor that a program makes: it has to compile quickly."""

LARGEST_VALUE = {Kind.HALF: 100.0, Kind.WIDE: 1e4, Kind.COMPLEX: 1e4}
"""Programs stay below, so that squares and their sums do not overflow: where a value overflows
depends on what XLA fuses, because it computes fused f16 in f32."""

RESULTS = 6
"""How many of the values that no instruction uses are results."""


class Instruction(NamedTuple):
    """One operation on two earlier values; `dtype` is the result's."""

    operation: str
    first: int
    second: int
    number: int
    dtype: str


class Argument(NamedTuple):
    shape: tuple[int, ...]
    dtype: str


Perform = Callable[[Instruction, tf.Tensor, tf.Tensor], tf.Tensor]


class RandomProgram(NamedTuple):
    """A function of its arguments, made of instructions.

    special: values, NaN or inf, that some elements of the first argument have.
    differentiated: whether the gradients of the results to the floating-point arguments are results
    as well.
    """

    arguments: tuple[Argument, ...]
    instructions: tuple[Instruction, ...]
    special: tuple[float, ...] = ()
    differentiated: bool = False

    @property
    def results(self) -> list[int]:
        """The last of the values that no instruction uses."""
        used = {index for each in self.instructions for index in operands_of(each)}
        count = len(self.arguments) + len(self.instructions)
        return [index for index in range(count) if index not in used][-RESULTS:]

    def values(self) -> list[np.ndarray]:
        """The same arguments in every run."""
        generator = np.random.default_rng(0)
        values = [_array(argument, generator) for argument in self.arguments]
        flat = values[0].reshape(-1)
        for index, value in enumerate(self.special):
            flat[index * 7 % flat.size] = value
        return values

    def compute(self, *arguments: tf.Tensor) -> list[tf.Tensor]:
        """The program as a TensorFlow function."""
        return self.evaluate(arguments, perform)

    def evaluate(self, arguments: Sequence[tf.Tensor], step: Perform) -> list[tf.Tensor]:
        """The results, when `step` performs each instruction."""
        if not self.differentiated:
            return self._forward(arguments, step)
        with tf.GradientTape() as tape:
            watched = [each for each in arguments if each.dtype.is_floating]
            tape.watch(watched)
            results = self._forward(arguments, step)
            losses = [_loss(result) for result in results if result.dtype.is_floating]
            total = tf.add_n(losses or [tf.zeros([], tf.float64)])
        gradients = tape.gradient(total, watched, unconnected_gradients="zero")
        return [*results, *map(tf.convert_to_tensor, gradients)]

    def _forward(self, arguments: Sequence[tf.Tensor], step: Perform) -> list[tf.Tensor]:
        pool = list(arguments)
        for each in self.instructions:
            pool.append(step(each, pool[each.first], pool[each.second]))
        return [pool[index] for index in self.results]

    def without_unused(self) -> RandomProgram:
        """The same without the instructions that no result needs."""
        needed, first = set(self.results), len(self.arguments)
        for index, each in reversed(list(enumerate(self.instructions, first))):
            if index in needed:
                needed.update(operands_of(each))
        kept = [*range(first), *sorted(index for index in needed if index >= first)]
        place = {old: new for new, old in enumerate(kept)}
        instructions = (self.instructions[old - first] for old in kept[first:])
        return self._replace(
            instructions=tuple(
                each._replace(first=place[each.first], second=place.get(each.second, 0))
                for each in instructions
            )
        )

    @property
    def result_laws(self) -> list[Law | None]:
        """How each result is compared: None exactly, SMOOTH by rounding, RANDOM not at all."""
        laws: list[Law | None] = [None] * len(self.arguments)
        for each in self.instructions:
            laws.append(law_of(each, [laws[index] for index in operands_of(each)]))
        gradients = sum(tf.as_dtype(each.dtype).is_floating for each in self.arguments)
        extra = [Law.SMOOTH] * gradients if self.differentiated else []
        return [*(laws[index] for index in self.results), *extra]


def perform(instruction: Instruction, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """What the instruction makes of its operands."""
    return OPERATIONS[instruction.operation].apply(x, y, instruction.number)


def law_of(instruction: Instruction, operands: Iterable[Law | None]) -> Law | None:
    """How the result is compared, given that of its operands."""
    law, laws = OPERATIONS[instruction.operation].law, set(operands)
    if Law.RANDOM in (law, *laws):
        return Law.RANDOM
    rounds = law in (Law.SMOOTH, Law.KINKED) or Law.SMOOTH in laws
    integral = kind_of(tf.as_dtype(instruction.dtype)) in Kind.INTEGER | Kind.BOOLEAN
    return Law.SMOOTH if rounds and not integral else None


def _loss(result: tf.Tensor) -> tf.Tensor:
    """What is differentiated. Its gradient is of the size of one, which f16 can hold."""
    return tf.reduce_sum(tf.cast(tf.tanh(result), tf.float64))


def operands_of(instruction: Instruction) -> tuple[int, ...]:
    both = (instruction.first, instruction.second)
    return both[: OPERATIONS[instruction.operation].operands]


def _array(argument: Argument, generator: np.random.Generator) -> np.ndarray:
    dtype = tf.as_dtype(argument.dtype)
    kind = kind_of(dtype)
    if kind in Kind.INTEGER | Kind.BOOLEAN:
        return generator.integers(0, 2 if kind is Kind.BOOLEAN else 9, argument.shape).astype(
            dtype.as_numpy_dtype
        )
    values = generator.normal(size=argument.shape)
    if kind is Kind.COMPLEX:
        values = values + 1j * generator.normal(size=argument.shape)
    return np.asarray(values, dtype.as_numpy_dtype)
