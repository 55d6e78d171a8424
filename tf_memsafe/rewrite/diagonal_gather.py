"""The gathers that take a diagonal, as tf.linalg.diag_part makes them: reading and writing them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.ops.gather import IndexNumbers
from tf_memsafe.hlo.ops.structure import is_splat, literal
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.maths import repeated_value


@dataclass(frozen=True)
class Diagonal:
    """The elements of `matrix` at rows start[0] + i and columns start[1] + i, for i < length.

    axes: which of the matrix' axes are rows and columns. The diagonal has its other axes, in order,
    and then an axis of `length`.
    """

    matrix: Node
    axes: tuple[int, ...]
    start: tuple[int, ...]
    length: int

    @classmethod
    def whole(cls, matrix: Node, axes: tuple[int, ...]) -> Diagonal:
        """The main diagonal of these axes."""
        return cls(matrix, axes, (0, 0), min(matrix.shape[axis] for axis in axes))

    @property
    def batch(self) -> list[int]:
        """The axes of the matrix that are neither rows nor columns."""
        return [axis for axis in range(self.matrix.tensor.rank) if axis not in self.axes]

    def of(self, matrix: Node, axes: Sequence[int] | None = None) -> Node:
        """The same diagonal of another matrix."""
        own = self.axes if axes is None else tuple(axes)
        return Diagonal(matrix, own, self.start, self.length).gather()

    def gather(self) -> Node:
        """The node that takes the diagonal, as `read_diagonal` knows it."""
        positions = [self._positions(start) for start in self.start]
        indices = build.emit("concatenate", positions, {"dimension": 0})
        rank = self.matrix.tensor.rank
        axes = tuple(sorted(self.axes))
        numbers = IndexNumbers("gather", tuple(range(rank - 2)), axes, (), (), self.axes, 0)
        sizes = [1 if axis in axes else size for axis, size in enumerate(self.matrix.shape)]
        attributes = {
            "dimension_numbers": numbers,
            "slice_sizes": tuple(sizes),
            "indices_are_sorted": False,
        }
        return build.emit("gather", (self.matrix, indices), attributes)

    def _positions(self, start: int) -> Node:
        type_ = TensorType("i32", (1, self.length))
        count = build.iota(1, type_)
        return build.add(count, build.constant(start, type_)) if start else count


def read_diagonal(node: Node) -> Diagonal | None:
    """What a gather takes, if it is the diagonal of a matrix, or of each of a stack of them."""
    matrix, indices = node.operands
    numbers: IndexNumbers = node["dimension_numbers"]
    if len(numbers.positions) != 2:
        return None
    start = tuple(first for first in _starts(indices, numbers.vector) if first is not None)
    if len(start) != 2:
        return None
    axes, length = numbers.positions, indices.tensor.size // 2
    whole = tuple(1 if axis in axes else size for axis, size in enumerate(matrix.shape))
    plain = (
        numbers.collapsed == tuple(sorted(axes))
        and not numbers.operand_batching
        and numbers.windows == tuple(range(matrix.tensor.rank - 2))
        and node["slice_sizes"] == whole
    )
    inside = all(
        first >= 0 and first + length <= matrix.shape[axis]
        for first, axis in zip(start, axes, strict=True)
    )
    return Diagonal(matrix, axes, start, length) if plain and inside else None


def _starts(indices: Node, vector: int) -> list[int | None]:
    """The first position along each axis; None where the positions do not go up by one."""
    if indices.name == "concatenate" and indices["dimension"] == vector:
        return [_first_of_count(positions) for positions in indices.operands]
    if indices.name == "constant" and not is_splat(indices):
        values = literal(indices).reshape(indices.shape)
        return [_first_of_run(row.reshape(-1)) for row in np.moveaxis(values, vector, 0)]
    return []


def _first_of_count(node: Node) -> int | None:
    """The first of a row of whole numbers that go up by one; None if the node is no such row."""
    if node.tensor.size < 2 or max(node.shape) != node.tensor.size:
        return None
    if node.name == "reshape":
        return _first_of_count(node.operands[0])
    if node.name == "iota":
        return 0
    if node.name == "constant" and not is_splat(node):
        return _first_of_run(literal(node))
    if node.name == "add":
        for count, other in (node.operands, node.operands[::-1]):
            start, offset = _first_of_count(count), repeated_value(other)
            if start is not None and isinstance(offset, int):
                return start + offset
    return None


def _first_of_run(values: np.ndarray) -> int | None:
    if len(values) < 2 or (np.diff(values) != 1).any():
        return None
    return int(values[0])
