"""Operations that move elements: views, gathers, scatters, slices whose offset is computed."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.generated.operation import Kind, Law, along, along_axis, general, numbered, unary


def _reshape(x: tf.Tensor, axis: int) -> tf.Tensor:
    """Merges two neighbouring axes, or splits one in two."""
    shape = list(x.shape)
    if axis + 1 < len(shape):
        return tf.reshape(x, [*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]])
    for divisor in (2, 3, 5, 7):
        if shape[axis] % divisor == 0 and shape[axis] > divisor:
            return tf.reshape(x, [*shape[:axis], shape[axis] // divisor, divisor])
    return tf.expand_dims(x, axis)


def _transpose(x: tf.Tensor, number: int) -> tf.Tensor:
    return tf.transpose(x, np.roll(np.arange(x.shape.rank), number))


def _slice(x: tf.Tensor, axis: int) -> tf.Tensor:
    begin = along_axis(x, axis, min(1, x.shape[axis] - 1), 0)
    return tf.slice(x, begin, [-1] * x.shape.rank)


def _strided_slice(x: tf.Tensor, axis: int) -> tf.Tensor:
    return tf.strided_slice(x, [0] * x.shape.rank, x.shape, along_axis(x, axis, 2, 1))


def _first(x: tf.Tensor, axis: int) -> tf.Tensor:
    return tf.unstack(x, axis=axis)[0]


def _pad(x: tf.Tensor, axis: int) -> tf.Tensor:
    return tf.pad(x, [[1, 2] if axis == each else [0, 0] for each in range(x.shape.rank)])


def _reflect(x: tf.Tensor, axis: int) -> tf.Tensor:
    widths = [[0, 1] if axis == each else [0, 0] for each in range(x.shape.rank)]
    return tf.pad(x, widths, "SYMMETRIC")


def _concatenate(x: tf.Tensor, y: tf.Tensor, number: int) -> tf.Tensor | None:
    if not x.shape.rank or x.shape.rank != y.shape.rank:
        return None
    axis = number % x.shape.rank
    same = [a == b for i, (a, b) in enumerate(zip(x.shape, y.shape, strict=True)) if i != axis]
    return tf.concat([x, y, x] if number % 2 else [x, y], axis) if all(same) else None


def _stack(x: tf.Tensor, y: tf.Tensor, number: int) -> tf.Tensor | None:
    return tf.stack([x, y], number % (x.shape.rank + 1)) if x.shape == y.shape else None


def _squeeze(x: tf.Tensor, axis: int) -> tf.Tensor | None:
    return tf.squeeze(x, axis) if x.shape[axis] == 1 else None


def _spread(x: tf.Tensor, number: int) -> tf.Tensor:
    return tf.broadcast_to(x, [number + 2, *x.shape])


def _diagonal(x: tf.Tensor) -> tf.Tensor | None:
    return tf.linalg.diag_part(x) if x.shape.rank >= 2 else None


def _band(x: tf.Tensor, number: int) -> tf.Tensor:
    return tf.linalg.band_part(x, number - 1, 0)


VIEWS = {
    "reshape": along(_reshape, Kind.ANY, Law.MOVES),
    "transpose": numbered(_transpose, Kind.ANY, Law.MOVES, rank=2),
    "slice": along(_slice, Kind.ANY, Law.MOVES),
    "strided slice": along(_strided_slice, Kind.ANY, Law.MOVES),
    "first": along(_first, Kind.ANY, Law.MOVES),
    "pad": along(_pad, Kind.ANY, Law.MOVES),
    "reflect": along(_reflect, Kind.NUMBER, Law.MOVES),
    "reverse": along(lambda x, axis: tf.reverse(x, [axis]), Kind.ANY, Law.MOVES),
    "roll": along(lambda x, axis: tf.roll(x, 2, axis), Kind.NUMBER, Law.MOVES),
    "repeat": along(lambda x, axis: tf.repeat(x, 2, axis), Kind.NUMBER, Law.MOVES),
    "tile": along(lambda x, axis: tf.tile(x, along_axis(x, axis, 3, 1)), Kind.ANY, Law.MOVES),
    "concatenate": general(_concatenate, Kind.ANY, Law.MOVES),
    "stack": general(_stack, Kind.ANY, Law.MOVES),
    "expand": numbered(
        lambda x, number: tf.expand_dims(x, number % (x.shape.rank + 1)), Kind.ANY, Law.MOVES
    ),
    "squeeze": along(_squeeze, Kind.ANY, Law.MOVES),
    "spread": numbered(_spread, Kind.ANY, Law.MOVES),
    "diagonal": unary(_diagonal, Kind.NUMBER, Law.MOVES),
    "diagonal matrix": numbered(lambda x, _: tf.linalg.diag(x), Kind.NUMBER, Law.MOVES, rank=1),
    "band": numbered(_band, Kind.NUMBER, Law.MOVES, rank=2),
    "negate": unary(tf.negative, Kind.NUMBER, Law.MOVES),
}


def _gather(x: tf.Tensor, at: tf.Tensor, number: int) -> tf.Tensor | None:
    if not x.shape.rank or not 1 <= at.shape.rank <= 2:
        return None
    axis = number % x.shape.rank
    return tf.gather(x, tf.cast(at, tf.int32) % x.shape[axis], axis=axis)


def _gather_along(x: tf.Tensor, at: tf.Tensor, _number: int) -> tf.Tensor | None:
    """Some elements of each row."""
    if x.shape.rank < 2 or at.shape.rank != 2 or x.shape[0] != at.shape[0]:
        return None
    return tf.gather(x, tf.cast(at, tf.int32) % x.shape[1], batch_dims=1)


def _gather_elements(x: tf.Tensor, at: tf.Tensor, _number: int) -> tf.Tensor | None:
    if x.shape.rank != 2 or at.shape.rank != 1:
        return None
    rows = tf.cast(at, tf.int32)
    return tf.gather_nd(x, tf.stack([rows % x.shape[0], rows * rows % x.shape[1]], 1))


def _offset(x: tf.Tensor, at: tf.Tensor, number: int) -> tf.Tensor:
    """A row of x, known at run time."""
    return (tf.reduce_max(tf.cast(at, tf.int32)) + number) % x.shape[0]


def _slice_at(x: tf.Tensor, at: tf.Tensor, number: int) -> tf.Tensor | None:
    if not x.shape.rank:
        return None
    return x[_offset(x, at, number)]


def _update_at(x: tf.Tensor, at: tf.Tensor, number: int) -> tf.Tensor | None:
    if not x.shape.rank:
        return None
    return tf.tensor_scatter_nd_update(x, [[_offset(x, at, number)]], [-x[0]])


def _count(x: tf.Tensor, _number: int) -> tf.Tensor:
    """How often each remainder occurs."""
    return tf.math.unsorted_segment_sum(tf.ones_like(x), tf.cast(x % 8, tf.int32), 8)


def _segments(x: tf.Tensor, at: tf.Tensor) -> tf.Tensor | None:
    """A segment for each row of x, if there is a number for each."""
    if not x.shape.rank or at.shape.rank != 1 or at.shape[0] != x.shape[0]:
        return None
    return tf.cast(at, tf.int32) % 4


def _segment_sum(x: tf.Tensor, at: tf.Tensor, _number: int) -> tf.Tensor | None:
    segments = _segments(x, at)
    return None if segments is None else tf.math.unsorted_segment_sum(x, segments, 4)


def _segment_extreme(x: tf.Tensor, at: tf.Tensor, number: int) -> tf.Tensor | None:
    segments = _segments(x, at)
    extreme = (tf.math.unsorted_segment_max, tf.math.unsorted_segment_min)[number % 2]
    return None if segments is None else extreme(x, segments, 4)


def _scatter_add(x: tf.Tensor, at: tf.Tensor, _number: int) -> tf.Tensor | None:
    """Rows of x added to rows of x."""
    if not x.shape.rank or at.shape.rank != 1:
        return None
    rows = tf.cast(at, tf.int32) % x.shape[0]
    return tf.tensor_scatter_nd_add(x, rows[:, None], tf.gather(x, rows[::-1]))


def _scatter_extreme(x: tf.Tensor, at: tf.Tensor, number: int) -> tf.Tensor | None:
    if not x.shape.rank or at.shape.rank != 1:
        return None
    rows = tf.cast(at, tf.int32) % x.shape[0]
    extreme = (tf.tensor_scatter_nd_max, tf.tensor_scatter_nd_min)[number % 2]
    return extreme(x, rows[:, None], tf.gather(x, rows[::-1]))


INDEXING = {
    "gather": general(_gather, Kind.ANY, Law.MOVES, Kind.INTEGER),
    "gather along rows": general(_gather_along, Kind.ANY, Law.MOVES, Kind.INTEGER),
    "gather elements": general(_gather_elements, Kind.ANY, Law.MOVES, Kind.INTEGER),
    "slice at": general(_slice_at, Kind.ANY, Law.MOVES, Kind.INTEGER),
    "update at": general(_update_at, Kind.NUMBER, Law.MOVES, Kind.INTEGER),
    "segment sum": general(_segment_sum, Kind.NUMBER, Law.SMOOTH, Kind.INTEGER),
    "segment extreme": general(_segment_extreme, Kind.REAL, Law.CHOOSES, Kind.INTEGER),
    "scatter add": general(_scatter_add, Kind.NUMBER, Law.SMOOTH, Kind.INTEGER),
    "scatter extreme": general(_scatter_extreme, Kind.REAL, Law.CHOOSES, Kind.INTEGER),
    "count": numbered(_count, Kind.INTEGER, Law.JUMPS, rank=1),
}

OPERATIONS = {**VIEWS, **INDEXING}
