"""Random TensorFlow programs, drawn from every op family, for the property tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from hypothesis import strategies as st

LARGEST = 20_000
"""Elements of the largest tensor a random program makes: it has to compile quickly."""

Pool = list[tf.Tensor]
Operation = Callable[[tf.Tensor, tf.Tensor, int], tf.Tensor | None]
"""A new tensor from two others and a small number, or None where the shapes do not allow it."""


class Step(NamedTuple):
    """One operation on two earlier values, chosen modulo what there is to choose from."""

    operation: int
    first: int
    second: int
    number: int


class RandomProgram(NamedTuple):
    """A function of x [12, 5], y [7, 5] and z [12] in f64, made of steps; several results."""

    steps: tuple[Step, ...]
    results: int

    def compute(self, x: tf.Tensor, y: tf.Tensor, z: tf.Tensor) -> list[tf.Tensor]:
        pool: Pool = [x, y, z]
        for step in self.steps:
            first, second = pool[-1 - step.first % len(pool)], pool[-1 - step.second % len(pool)]
            made = OPERATIONS[step.operation](first, second, step.number)
            if made is not None and made.shape.num_elements() <= LARGEST:
                pool.append(made)
        return pool[-self.results :]


def programs(shortest: int, longest: int) -> st.SearchStrategy[RandomProgram]:
    step = st.builds(
        Step,
        st.integers(0, len(OPERATIONS) - 1),
        st.integers(0, 5),
        st.integers(0, 30),
        st.integers(0, 5),
    )
    steps = st.lists(step, min_size=shortest, max_size=longest).map(tuple)
    return st.builds(RandomProgram, steps, st.integers(1, 3))


def arguments(special: Sequence[float]) -> list[np.ndarray]:
    """x, y and z, with these special values (NaN, inf) somewhere in x."""
    generator = np.random.default_rng(0)
    x, y, z = (generator.normal(size=shape) for shape in ((12, 5), (7, 5), (12,)))
    for index, value in enumerate(special):
        x[3 + index, index] = value
    return [x, y, z]


def _axis(x: tf.Tensor, number: int) -> int | None:
    return number % x.shape.rank if x.shape.rank else None


def _unary(function: Callable[[tf.Tensor], tf.Tensor]) -> Operation:
    return lambda x, _y, _number: function(x)


def _binary(function: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]) -> Operation:
    def apply(x: tf.Tensor, y: tf.Tensor, _number: int) -> tf.Tensor | None:
        try:
            tf.broadcast_static_shape(x.shape, y.shape)
        except ValueError:
            return None
        return function(x, y)

    return apply


def _along(function: Callable[[tf.Tensor, int], tf.Tensor]) -> Operation:
    """An operation along one axis."""

    def apply(x: tf.Tensor, _y: tf.Tensor, number: int) -> tf.Tensor | None:
        axis = _axis(x, number)
        return None if axis is None else function(x, axis)

    return apply


def _outer(x: tf.Tensor, y: tf.Tensor, number: int) -> tf.Tensor | None:
    """The beginner's x[:, None] - y[None]: the sizes multiply."""
    if x.shape.rank + y.shape.rank > 4 or not x.shape.rank:
        return None
    left = tf.reshape(x, [*x.shape, *[1] * y.shape.rank])
    return (tf.subtract, tf.multiply, tf.maximum)[number % 3](left, y)


def _rows(x: tf.Tensor, y: tf.Tensor, _number: int) -> tf.Tensor | None:
    """Differences of the rows of two matrices."""
    if x.shape.rank != 2 or y.shape.rank != 2 or x.shape[1] != y.shape[1]:
        return None
    return x[:, None] - y[None]


def _matmul(x: tf.Tensor, y: tf.Tensor, number: int) -> tf.Tensor | None:
    if x.shape.rank < 2 or y.shape.rank != 2:
        return None
    if x.shape[-1] == y.shape[-1]:
        return tf.linalg.matvec(x, y[0]) if number == 5 else tf.einsum("...ik,jk->...ij", x, y)
    return tf.einsum("...ik,kj->...ij", x, y) if x.shape[-1] == y.shape[0] else None


def _contract_rows(x: tf.Tensor, y: tf.Tensor, _number: int) -> tf.Tensor | None:
    if x.shape.rank < 2 or y.shape.rank < 2 or x.shape[0] != y.shape[0]:
        return None
    return tf.tensordot(x, y, [[0], [0]]) if x.shape.rank + y.shape.rank <= 5 else None


def _concatenate(x: tf.Tensor, y: tf.Tensor, number: int) -> tf.Tensor | None:
    axis = _axis(x, number)
    if axis is None or x.shape.rank != y.shape.rank:
        return None
    same = [a == b for i, (a, b) in enumerate(zip(x.shape, y.shape, strict=True)) if i != axis]
    return tf.concat([x, y], axis) if all(same) else None


def _reshape(x: tf.Tensor, _y: tf.Tensor, number: int) -> tf.Tensor | None:
    """Merges two neighbouring axes, or splits one in two."""
    axis = _axis(x, number)
    if axis is None:
        return None
    shape = list(x.shape)
    if axis + 1 < len(shape):
        return tf.reshape(x, [*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]])
    for divisor in (2, 3, 5, 7):
        if shape[axis] % divisor == 0 and shape[axis] > divisor:
            return tf.reshape(x, [*shape[:axis], shape[axis] // divisor, divisor])
    return tf.expand_dims(x, axis)


def _transpose(x: tf.Tensor, _y: tf.Tensor, number: int) -> tf.Tensor:
    order = np.roll(np.arange(x.shape.rank), number)
    return tf.transpose(x, order)


def _slice(x: tf.Tensor, axis: int) -> tf.Tensor:
    begin = [0] * x.shape.rank
    begin[axis] = min(1, x.shape[axis] - 1)
    return tf.slice(x, begin, [-1] * x.shape.rank)


def _pad(x: tf.Tensor, axis: int) -> tf.Tensor:
    return tf.pad(x, [[1, 2] if axis == i else [0, 0] for i in range(x.shape.rank)])


def _gather(x: tf.Tensor, y: tf.Tensor, number: int) -> tf.Tensor | None:
    axis = _axis(x, number)
    if axis is None or y.shape.rank != 1:
        return None
    return tf.gather(x, tf.argsort(y) % x.shape[axis], axis=axis)


def _segment_sum(x: tf.Tensor, _y: tf.Tensor, _number: int) -> tf.Tensor | None:
    if not x.shape.rank:
        return None
    return tf.math.unsorted_segment_sum(x, tf.range(x.shape[0]) % 4, 4)


def _top_k(x: tf.Tensor, _y: tf.Tensor, number: int) -> tf.Tensor | None:
    if not x.shape.rank:
        return None
    values, indices = tf.math.top_k(x, min(3, x.shape[-1]))
    return values if number % 2 else tf.cast(indices, x.dtype)


def _triangular_solve(x: tf.Tensor, _y: tf.Tensor, _number: int) -> tf.Tensor | None:
    if x.shape.rank != 2 or x.shape[0] > 12:
        return None
    bounded = tf.where(tf.math.is_finite(x), tf.tanh(x), 0)
    gram = bounded @ tf.transpose(bounded) + x.shape[0] * tf.eye(x.shape[0], dtype=x.dtype)
    return tf.linalg.triangular_solve(tf.linalg.cholesky(gram), x)


def _fft(x: tf.Tensor, _y: tf.Tensor, _number: int) -> tf.Tensor | None:
    return tf.abs(tf.signal.fft(tf.cast(x, tf.complex128))) if x.shape.rank else None


def _while(x: tf.Tensor, _y: tf.Tensor, number: int) -> tf.Tensor:
    def body(i: tf.Tensor, value: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return i + 1, tf.sin(value) + x

    return tf.while_loop(lambda i, _: i < number, body, (0, x))[1]


def _cond(x: tf.Tensor, _y: tf.Tensor, _number: int) -> tf.Tensor:
    return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.sin(x), lambda: x + 1)


def _softmax(x: tf.Tensor, axis: int) -> tf.Tensor:
    return tf.nn.softmax(x, axis)


OPERATIONS: tuple[Operation, ...] = (
    _outer,
    _rows,
    _matmul,
    _contract_rows,
    *map(_unary, (tf.tanh, tf.abs, tf.square, tf.sigmoid, lambda x: tf.exp(-tf.abs(x)))),
    *map(_binary, (tf.add, tf.subtract, tf.multiply, tf.maximum, tf.minimum)),
    _binary(lambda x, y: tf.where(x > y, x, 2 * y)),
    *map(_along, (tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_min)),
    *map(_along, (tf.reduce_logsumexp, tf.math.reduce_variance, _softmax)),
    _along(lambda x, axis: tf.cast(tf.argmax(x, axis), x.dtype)),
    _along(lambda x, axis: tf.cast(tf.reduce_any(x > 0, axis), x.dtype)),
    *map(_along, (tf.cumsum, tf.sort, _slice, _pad)),
    _along(lambda x, axis: tf.reverse(x, [axis])),
    _unary(lambda x: tf.cast(tf.cast(x, tf.float32), tf.float64)),
    _unary(lambda x: tf.one_hot(tf.cast(tf.math.tanh(x) * 2, tf.int32), 3, dtype=x.dtype)),
    _concatenate,
    _reshape,
    _transpose,
    _gather,
    _segment_sum,
    _top_k,
    _triangular_solve,
    _fft,
    _while,
    _cond,
)
