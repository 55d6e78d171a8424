"""Constants that take less when they are computed: TensorFlow folds masks and eyes into them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.ops.structure import literal
from tf_memsafe.hlo.types import TensorType


def computed_band(node: Node) -> Node | None:
    """What computes a matrix that has one value in a band along its diagonals, another outside.

    None for any other constant. Of a causal mask or an eye that is computed, a loop makes the rows
    that it needs. The matrix may have axes of size 1 beside its own two.

    Example: for the constant `np.tril(ones)`, `select(column - row >= 1, 0, 1)`.
    """
    axes = [axis for axis, size in enumerate(node.shape) if size > 1]
    if len(axes) != 2:
        return None
    band = _band(literal(node).reshape([node.shape[axis] for axis in axes]))
    if band is None:
        return None
    inside = _is_inside(band, node.shape, axes)
    if node.dtype == "i1":
        return inside if band.inside else build.emit("not", (inside,))
    values = (_filled(value, node.tensor) for value in (band.inside, band.outside))
    return build.emit("select", (inside, *values), source=node.source)


class _Band(NamedTuple):
    """The diagonals `first` to `stop` of a matrix, by column minus row, and what is on them.

    stop: None where the band goes on to the corner.
    """

    first: int
    stop: int | None
    inside: Any
    outside: Any


def _band(matrix: NDArray[Any]) -> _Band | None:
    """The band outside of which a matrix repeats one value; None if there is none."""
    bits = matrix.view(f"V{matrix.itemsize}")  # tells -0 from 0, and a NaN is itself
    if not np.array_equal(bits[1:, 1:], bits[:-1, :-1]):
        return None
    diagonals = np.concatenate([matrix[::-1, 0], matrix[0, 1:]])
    bits = diagonals.view(bits.dtype)
    edges = [int(edge) for edge in np.flatnonzero(bits[1:] != bits[:-1]) + 1]
    if len(edges) not in (1, 2) or (len(edges) == 2 and bits[0] != bits[-1]):
        return None
    first, *stop = [edge - (len(matrix) - 1) for edge in edges]
    return _Band(first, stop[0] if stop else None, diagonals[edges[0]], diagonals[0])


def _is_inside(band: _Band, shape: Sequence[int], axes: Sequence[int]) -> Node:
    """Whether each element is in the band; the matrix has these two axes."""
    type_ = TensorType("i32", tuple(shape))
    row, column = (build.iota(axis, type_) for axis in axes)
    diagonal = build.subtract(column, row)
    if band.stop == band.first + 1:
        return build.compare(diagonal, _filled(band.first, type_), "EQ")
    inside = build.compare(diagonal, _filled(band.first, type_), "GE")
    if band.stop is None:
        return inside
    return build.emit("and", (inside, build.compare(diagonal, _filled(band.stop, type_), "LT")))


def _filled(value: Any, type_: TensorType) -> Node:
    return build.broadcast(build.constant(value, TensorType(type_.dtype)), type_.shape)
