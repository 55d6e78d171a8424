"""Operations on single elements: floats, complex numbers, integers, truth values, conversions."""

from __future__ import annotations

import tensorflow as tf

from tests.generated.operation import Kind, Law, Operation, binary, broadcasts, general, unary


def _select(x: tf.Tensor, mask: tf.Tensor, number: int) -> tf.Tensor | None:
    if not broadcasts(x, mask):
        return None
    return tf.where(mask, x, -x if number % 2 else tf.zeros_like(x))


def _choose_between(x: tf.Tensor, y: tf.Tensor, number: int) -> tf.Tensor | None:
    """The larger or the smaller; of three where the number says so, and clipped in between."""
    if not broadcasts(x, y):
        return None
    larger, smaller = tf.maximum(x, y), tf.minimum(x, y)
    return (larger, smaller, tf.where(x > y, x, y), tf.clip_by_value(x, smaller, larger))[
        number % 4
    ]


def _compare(x: tf.Tensor, y: tf.Tensor, number: int) -> tf.Tensor | None:
    if not broadcasts(x, y):
        return None
    return (tf.less, tf.greater_equal, tf.equal, tf.not_equal)[number % 4](x, y)


def _to_complex(x: tf.Tensor, y: tf.Tensor, _number: int) -> tf.Tensor | None:
    return tf.complex(x, y) if x.shape == y.shape else None


def _plus_table(x: tf.Tensor) -> tf.Tensor | None:
    """A constant that is written out in the program, and large enough to be passed to it."""
    count = x.shape.num_elements()
    if count < 2:
        return None
    return x + tf.reshape(tf.constant([i % 7 / 8 for i in range(count)], x.dtype), x.shape)


def _erf(x: tf.Tensor) -> tf.Tensor:
    """XLA's; TensorFlow's own kernel makes NaN of infinities in f64, which the reference is in."""
    found = tf.math.erf(x)
    return tf.where(tf.math.is_inf(x), tf.sign(x), found) if tf.executing_eagerly() else found


SMOOTH = {
    "tanh": unary(tf.tanh, Kind.FLOAT | Kind.COMPLEX),
    "sin": unary(tf.sin, Kind.FLOAT),
    "sigmoid": unary(tf.sigmoid),
    "softplus": unary(tf.nn.softplus),
    "erf": unary(_erf),
    "gaussian": unary(lambda x: tf.exp(-x * x)),
    "decay": unary(lambda x: tf.exp(-0.1 * x)),
    "log of square": unary(lambda x: tf.math.log1p(x * x)),
    "root": unary(lambda x: tf.sqrt(x * x + 0.5)),
    "reciprocal root": unary(lambda x: tf.math.rsqrt(x * x + 1)),
    "reciprocal": unary(lambda x: 1 / (1 + x * x)),
    "square": unary(tf.square, Kind.NUMBER),
    "cube": unary(lambda x: x**3),
    "affine": unary(lambda x: x * 0.5 + 1),
    "arctangent": unary(tf.atan),
    "exponential": unary(lambda x: tf.math.expm1(tf.tanh(x))),
    "add a constant": unary(_plus_table),
    "add": binary(tf.add, Kind.NUMBER),
    "subtract": binary(tf.subtract, Kind.NUMBER),
    "multiply": binary(tf.multiply, Kind.NUMBER),
    "divide": binary(lambda x, y: x / (1 + y * y)),
    "squared difference": binary(tf.math.squared_difference),
    "power": binary(lambda x, y: tf.pow(x * x + 0.5, tf.tanh(y))),
    "angle": binary(lambda x, y: tf.atan2(x, y * y + 1)),
}

KINKED = {
    "absolute value": unary(tf.abs, Kind.FLOAT, Law.KINKED),
    "modulus": unary(tf.abs, Kind.COMPLEX, Law.KINKED),
    "relu": unary(tf.nn.relu, Kind.FLOAT, Law.KINKED),
    "laplace": unary(lambda x: tf.exp(-tf.abs(x)), Kind.FLOAT, Law.KINKED),
    "clip": unary(lambda x: tf.clip_by_value(x, -0.5, 0.75), Kind.FLOAT, Law.KINKED),
    "select": general(_select, Kind.NUMBER, Law.MOVES, Kind.BOOLEAN),
    "choose": general(_choose_between, Kind.REAL, Law.CHOOSES),
}

COMPLEX = {
    "complex": general(_to_complex, Kind.WIDE, Law.MOVES),
    "real part": unary(tf.math.real, Kind.COMPLEX, Law.MOVES),
    "imaginary part": unary(tf.math.imag, Kind.COMPLEX, Law.MOVES),
    "conjugate": unary(tf.math.conj, Kind.COMPLEX, Law.MOVES),
}

DISCRETE = {
    "compare": general(_compare, Kind.REAL, Law.JUMPS),
    "floor": unary(tf.floor, Kind.FLOAT, Law.JUMPS),
    "round": unary(tf.round, Kind.FLOAT, Law.JUMPS),
    "sign": unary(tf.sign, Kind.REAL, Law.JUMPS),
    "is finite": unary(tf.math.is_finite, Kind.FLOAT, Law.JUMPS),
    "is nan": unary(tf.math.is_nan, Kind.FLOAT, Law.JUMPS),
    "and": binary(tf.logical_and, Kind.BOOLEAN, Law.JUMPS),
    "exclusive or": binary(tf.math.logical_xor, Kind.BOOLEAN, Law.JUMPS),
    "not": unary(tf.logical_not, Kind.BOOLEAN, Law.JUMPS),
    "bitwise and": binary(tf.bitwise.bitwise_and, Kind.INTEGER, Law.JUMPS),
    "bitwise xor": binary(tf.bitwise.bitwise_xor, Kind.INTEGER, Law.JUMPS),
    "remainder": unary(lambda x: x % 5, Kind.INTEGER, Law.JUMPS),
    "quotient": unary(lambda x: x // 3, Kind.INTEGER, Law.JUMPS),
    "one hot": unary(lambda x: tf.one_hot(tf.cast(x % 4, tf.int32), 3), Kind.INTEGER, Law.JUMPS),
    # Not of NaN, inf or what is out of range: what integer that becomes is not defined.
    "truncate": unary(
        lambda x: tf.cast(tf.where(tf.abs(x) < 100, x, tf.zeros_like(x)), tf.int32),
        Kind.FLOAT,
        Law.JUMPS,
    ),
}


def _conversion(dtype: tf.DType, kinds: Kind, law: Law) -> Operation:
    return unary(lambda x: tf.cast(x, dtype), kinds, law)


CONVERSIONS = {
    # XLA may leave out a conversion to fewer bits and back: converted floats are not exact.
    **{
        f"to {dtype.name}": _conversion(dtype, Kind.REAL | Kind.BOOLEAN, Law.SMOOTH)
        for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64)
    },
    **{
        f"to {dtype.name}": _conversion(dtype, Kind.INTEGER | Kind.BOOLEAN, Law.JUMPS)
        for dtype in (tf.int32, tf.int8, tf.uint8)
    },
}

OPERATIONS = {**SMOOTH, **KINKED, **COMPLEX, **DISCRETE, **CONVERSIONS}
