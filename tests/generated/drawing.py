"""Draws random programs."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from hypothesis import strategies as st

from tests.generated.numerics import ORDERING
from tests.generated.operation import Kind, Law, Operation, kind_of
from tests.generated.program import (
    OPERATIONS,
    Argument,
    Instruction,
    RandomProgram,
    law_of,
    operands_of,
)
from tests.generated.rounding import widen

NAMES = tuple(OPERATIONS)
BY_SIGN = frozenset(ORDERING.values())
"""What sorts NaN first or last by its sign: that of one which is computed is anything."""

LARGEST = 100_000
"""Elements of the largest tensor that a program makes."""

LARGE = 1_000
"""Elements above which a value is reduced before it is a result: a result is not cut."""

MOST_REDUCTIONS = 5

GROWING = ["outer", "differences", "distances", "matmul", "attention", "spread", "tile", "gather"]
SHRINKING = ["sum", "mean", "maximum", "log-sum-exp", "top values", "segment sum", "contract rows"]

REPEATING = {"outer", "spread", "tile"}

WEIGHTS = np.array([8 if name in GROWING else 1 for name in NAMES])

LARGEST_VALUE = {Kind.HALF: 100.0, Kind.WIDE: 1e4, Kind.COMPLEX: 1e4}
"""Programs stay below, so that squares and their sums do not overflow: where a value overflows
depends on what XLA fuses, because it computes fused f16 in f32."""

FEW, MANY = (1, 2, 3, 5, 7, 8, 13), (1, 12, 31, 60, 64, 101, 120)
"""Sizes of axes: one, primes, and some that split evenly."""

FLOATS = ("float32", "float64", "float32", "float64", "float16", "bfloat16")

LEAST_VARIANCE = 1e-3
"""Of the square of the mean: far above what a long sum of squares loses in f32."""

SPECIAL = ((), (), (np.nan,), (np.inf,), (-np.inf, np.nan))


def programs(
    shortest: int, longest: int, differentiated: bool = False
) -> st.SearchStrategy[RandomProgram]:
    """Programs of up to so many instructions: those that no result needs are left out.

    Hypothesis draws what shapes the program, and a seed for its instructions: drawn one by one they
    would repeat each other, as Hypothesis prefers, and most operations would not be tried.
    """
    few, many = st.sampled_from(FEW), st.sampled_from(MANY)
    arguments = st.builds(_arguments, st.sampled_from(FLOATS), many, few, many, few)
    special = st.just(()) if differentiated else st.sampled_from(SPECIAL)
    empty = st.builds(
        RandomProgram, arguments, st.just(()), special, differentiated=st.just(differentiated)
    )
    # The shorter of two: long programs take long to compile.
    count = st.builds(min, *[st.integers(shortest, longest)] * 2)
    # Up to 24 bits are drawn evenly.
    return st.builds(_fill, empty, count, st.integers(0, 2**24 - 1))


def _arguments(main: str, rows: int, columns: int, points: int, batch: int) -> tuple[Argument, ...]:
    return (
        Argument((rows, columns), main),
        Argument((points, columns), main),
        Argument((rows,), main),
        Argument((batch, 5, columns), main),
        Argument((rows,), "int32"),
        Argument((points, 2), "int8"),
        Argument((points, columns), "complex64"),
    )


def _fill(empty: RandomProgram, count: int, seed: int) -> RandomProgram:
    sizes = [size for argument in empty.arguments for size in argument.shape]
    builder = Builder(empty, np.random.default_rng([seed, count, *sizes]))
    for _ in range(count):
        builder.add()
    builder.reduce_large()
    return empty._replace(instructions=tuple(builder.instructions)).without_unused()


class Builder:
    """Finds instructions that work: each is traced, for its type, and run in f64 for its values."""

    def __init__(self, program: RandomProgram, generator: np.random.Generator) -> None:
        self.generator = generator
        self.differentiated = program.differentiated
        self.instructions: list[Instruction] = []
        values = [tf.convert_to_tensor(value) for value in program.values()]
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.traced = [tf.compat.v1.placeholder(v.dtype, v.shape) for v in values]
        self.wide = [widen(value) for value in values]
        self.laws: list[Law | None] = [None] * len(values)
        self.unused = set[int]()

    def add(self) -> None:
        """Appends an instruction: of the operations in a random order, the first that works."""
        order = self.generator.choice(NAMES, len(NAMES), replace=False, p=WEIGHTS / WEIGHTS.sum())
        for name in map(str, order):
            if self._attempt(name, self._pick(OPERATIONS[name], OPERATIONS[name].kinds)):
                return

    def reduce_large(self) -> None:
        """Appends reductions of the large values that no instruction uses."""
        for _ in range(MOST_REDUCTIONS):
            large = [i for i in self.unused if self.traced[i].shape.num_elements() > LARGE]
            for index in large:
                self._attempt(str(self.generator.choice(SHRINKING)), index)

    def _attempt(self, name: str, first: int | None) -> bool:
        """Appends an instruction with this first operand, if there is one that works."""
        operation = OPERATIONS[name]
        if first is None or not self._may_take(operation, first):
            return False
        if self.differentiated and operation.law not in (Law.SMOOTH, Law.MOVES):
            return False
        alike = None if operation.other else self.traced[first].dtype
        second: int | None = first
        if operation.operands == 2:
            second = self._pick(operation, operation.other or Kind.ANY, alike)
        number = int(self.generator.integers(6))
        if second is None or (name == "slice at" and self._is_broadcast(second)):
            return False
        return self._try(name, first, second, number)

    def _pick(self, operation: Operation, kinds: Kind, dtype: tf.DType | None = None) -> int | None:
        fitting = [
            index
            for index, value in enumerate(self.traced)
            if (value.dtype == dtype if dtype else kind_of(value.dtype) in kinds)
            and self._may_take(operation, index)
        ]
        unused = [index for index in fitting if index in self.unused]
        if unused and self.generator.random() < 0.9:
            fitting = unused
        return int(self.generator.choice(fitting)) if fitting else None

    def _may_take(self, operation: Operation, index: int) -> bool:
        """Whether what the operation makes of the value can be compared."""
        if self.differentiated and operation is OPERATIONS["gather"]:
            made = self._instruction(index)
            if made is not None and made.operation == "concatenate":
                return False  # TensorFlow's gradient selects indices: how many there are is data
        is_exact, value = self.laws[index] is None, self.wide[index].numpy()
        if operation.cancels and np.isinf(value).any():
            return False
        if operation is OPERATIONS["batch norm"] and _hardly_varies(value):
            return False
        if operation in BY_SIGN and np.isnan(value).any():
            return is_exact
        return is_exact or operation.law is not Law.JUMPS

    def _instruction(self, index: int) -> Instruction | None:
        """What made a value; None of an argument."""
        position = index - (len(self.traced) - len(self.instructions))
        return self.instructions[position] if position >= 0 else None

    def _is_broadcast(self, index: int) -> bool:
        """Whether the value, or anything that it was made of, repeats a smaller one.

        XLA may crash when it looks whether such a position of a slice is constant.
        """
        made = self._instruction(index)
        if made is None:
            return False
        return made.operation in REPEATING or any(map(self._is_broadcast, operands_of(made)))

    def _try(self, name: str, first: int, second: int, number: int) -> bool:
        """Appends the instruction if TensorFlow does it, and it is not too large."""
        traced = self._trace(OPERATIONS[name], first, second, number)
        if traced is None or not 0 < traced.shape.num_elements() <= LARGEST:
            return False
        wide = self._run(OPERATIONS[name], first, second, number)
        if wide is None or _largest(wide) > LARGEST_VALUE.get(kind_of(traced.dtype), np.inf):
            return False
        instruction = Instruction(name, first, second, number, traced.dtype.name)
        operands = operands_of(instruction)
        self.laws.append(law_of(instruction, [self.laws[index] for index in operands]))
        self.unused = self.unused.difference(operands) | {len(self.traced)}
        self.instructions.append(instruction)
        self.traced.append(traced)
        self.wide.append(wide)
        return True

    def _trace(
        self, operation: Operation, first: int, second: int, number: int
    ) -> tf.Tensor | None:
        with self.graph.as_default():
            try:
                return operation.apply(self.traced[first], self.traced[second], number)
            except (TypeError, ValueError):  # TensorFlow does not do it for this dtype
                return None

    def _run(self, operation: Operation, first: int, second: int, number: int) -> tf.Tensor | None:
        try:
            return widen(operation.apply(self.wide[first], self.wide[second], number))
        except tf.errors.OpError:  # no kernel for this dtype
            return None


def _hardly_varies(value: np.ndarray) -> bool:
    """Whether a column's squares are much larger than its variance.

    XLA's batch norm subtracts the square of the mean from the mean of the squares: of such a column
    that may be below 0, by rounding.
    """
    rows = value.reshape(-1, *value.shape[-1:])
    with np.errstate(all="ignore"):
        return bool((rows.var(0) < LEAST_VARIANCE * rows.mean(0) ** 2).any())


def _largest(value: tf.Tensor) -> float:
    """The largest magnitude of what is finite."""
    magnitudes = np.abs(value.numpy())
    return float(magnitudes[np.isfinite(magnitudes)].max(initial=0))
