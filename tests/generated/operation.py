"""What a random program is made of: an operation, the dtypes it takes, how it rounds."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, Flag, auto
from typing import NamedTuple

import tensorflow as tf

Apply = Callable[[tf.Tensor, tf.Tensor, int], tf.Tensor | None]
"""A new tensor from two others and a small number, or None where the shapes do not allow it."""


class Kind(Flag):
    """Dtypes that operations treat alike."""

    HALF = auto()
    WIDE = auto()
    COMPLEX = auto()
    INTEGER = auto()
    BOOLEAN = auto()
    FLOAT = HALF | WIDE
    REAL = FLOAT | INTEGER
    NUMBER = REAL | COMPLEX
    ANY = NUMBER | BOOLEAN


def kind_of(dtype: tf.DType) -> Kind:
    if dtype in (tf.float16, tf.bfloat16):
        return Kind.HALF
    if dtype.is_floating:
        return Kind.WIDE
    if dtype.is_complex:
        return Kind.COMPLEX
    return Kind.BOOLEAN if dtype.is_bool else Kind.INTEGER


class Law(Enum):
    """What an operation does to small errors of its operands.

    Programs are compared by these laws. A value is exact if no order of computing could change it:
    an argument, an integer, a truth value, and what is only moved or chosen from exact values.
    Exact values are compared bit for bit, and the others within what rounding can do to them. So
    that rounding never decides anything, an operation that jumps takes only exact operands.
    """

    SMOOTH = "rounds; has a derivative everywhere"
    KINKED = "rounds; is continuous"
    MOVES = "only moves, drops, repeats or negates elements"
    CHOOSES = "takes elements by their order: minima, maxima, sorted values"
    JUMPS = "is not continuous: comparisons, indices, rounding to integers"
    RANDOM = "draws other numbers in each program: never compared"


class Operation(NamedTuple):
    """One row of the table of operations.

    kinds: of the first operand. other: of the second, None for the first operand's dtype.
    operands: how many it takes; the second of an operation of one is not looked at.
    cancels: the size of what rounds when a rewrite computes the result as a small difference of
    large terms, as its docstring says; the operation then takes no infinite operands, which the
    rewrite may treat otherwise.
    """

    apply: Apply
    kinds: Kind
    law: Law
    operands: int
    other: Kind | None = None
    cancels: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None = None


Unary = Callable[[tf.Tensor], tf.Tensor | None]
Along = Callable[[tf.Tensor, int], tf.Tensor | None]
Binary = Callable[[tf.Tensor, tf.Tensor], tf.Tensor | None]


def general(
    apply: Apply, kinds: Kind = Kind.FLOAT, law: Law = Law.SMOOTH, other: Kind | None = None
) -> Operation:
    """An operation of two operands that looks at their shapes itself."""
    return Operation(apply, kinds, law, 2, other)


def numbered(
    function: Along, kinds: Kind = Kind.FLOAT, law: Law = Law.SMOOTH, rank: int = 0
) -> Operation:
    """An operation of one operand, of at least `rank` axes, and the small number."""

    def apply(x: tf.Tensor, _y: tf.Tensor, number: int) -> tf.Tensor | None:
        return function(x, number) if x.shape.rank >= rank else None

    return Operation(apply, kinds, law, 1)


def unary(function: Unary, kinds: Kind = Kind.FLOAT, law: Law = Law.SMOOTH) -> Operation:
    return numbered(lambda x, _number: function(x), kinds, law)


def along(function: Along, kinds: Kind = Kind.FLOAT, law: Law = Law.SMOOTH) -> Operation:
    """An operation along one axis of one operand."""
    return numbered(lambda x, number: function(x, number % x.shape.rank), kinds, law, rank=1)


def binary(function: Binary, kinds: Kind = Kind.FLOAT, law: Law = Law.SMOOTH) -> Operation:
    """An elementwise operation of two operands that broadcast."""

    def apply(x: tf.Tensor, y: tf.Tensor, _number: int) -> tf.Tensor | None:
        return function(x, y) if broadcasts(x, y) else None

    return Operation(apply, kinds, law, 2)


def broadcasts(x: tf.Tensor, y: tf.Tensor) -> bool:
    try:
        tf.broadcast_static_shape(x.shape, y.shape)
    except ValueError:
        return False
    return True


def along_axis(x: tf.Tensor, axis: int, value: int, elsewhere: int) -> list[int]:
    """One number for each axis of x: `value` for this axis."""
    return [value if axis == each else elsewhere for each in range(x.shape.rank)]
