"""Some elements of a value that is computed of much smaller ones, computed of some of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.rewrite.maths import (
    ELEMENTWISE,
    filled,
    repeated_value,
    slice_axis,
    with_shape,
)

LEAST_REPEATS = 4
"""How many times larger a value is to be than what it is computed from."""

FEWEST_ELEMENTS = 100_000
"""Of a value. Fewer stay in the cache."""

DTYPES = {"f32", "f64"}


def is_large_of_small(node: Node) -> bool:
    """Whether a value is computed, element by element, of ones that are much smaller."""
    if not is_computed(node) or node.tensor.size < FEWEST_ELEMENTS or node.dtype not in DTYPES:
        return False
    return LEAST_REPEATS * sum(leaf.tensor.size for leaf in leaves(node)) <= node.tensor.size


def is_computed(node: Node) -> bool:
    """Whether each element is computed from the same elements of the operands."""
    return node.name in ELEMENTWISE and bool(node.operands)


def leaves(node: Node) -> set[Node]:
    """The values from which all others are computed, or repeated; without constants."""
    found: set[Node] = set()
    seen: set[Node] = set()
    pending = [node]
    while pending:
        value = pending.pop()
        if value in seen or repeated_value(value) is not None:
            continue
        seen.add(value)
        if is_computed(value):
            pending += value.operands
        else:
            found.add(value.operands[0] if value.name == "broadcast_in_dim" else value)
    return found


@dataclass(frozen=True)
class Elements:
    """The elements from `start` to `limit` along an axis, which is gone if `dropped`."""

    axis: int
    start: int
    limit: int
    dropped: bool = False
    _known: dict[Node, Node] = field(default_factory=dict, init=False, repr=False, compare=False)

    def of(self, node: Node) -> Node:
        """Of a value, computed anew if it is one that `is_computed`."""
        if node not in self._known:
            self._known[node] = self._of(node)
        return self._known[node]

    def _of(self, node: Node) -> Node:
        shape = self._shape(node.shape, self.axis)
        value = repeated_value(node)
        if value is not None:
            return filled(value, node, shape)
        if is_computed(node):
            operands = [self.of(operand) if operand.shape else operand for operand in node.operands]
            return with_shape(node, operands, shape)
        if node.name == "broadcast_in_dim":
            return self._repeated(node, shape)
        return self._taken(node, self.axis)

    def _shape(self, shape: Sequence[int], axis: int) -> list[int]:
        left = [] if self.dropped else [self.limit - self.start]
        return [*shape[:axis], *left, *shape[axis + 1 :]]

    def _repeated(self, node: Node, shape: Sequence[int]) -> Node:
        (operand,) = node.operands
        places: list[int] = list(node["broadcast_dimensions"])
        if self.axis in places:
            own = places.index(self.axis)
            operand = self._taken_or_repeated(operand, own)
            if self.dropped:
                places.pop(own)
        shift = int(self.dropped)
        return build.broadcast(operand, shape, [p - shift * (p > self.axis) for p in places])

    def _taken_or_repeated(self, operand: Node, axis: int) -> Node:
        """Of what is broadcast, and may have one element where the result has many."""
        if operand.shape[axis] > 1:
            return self._taken(operand, axis)
        return self._without(operand, axis) if self.dropped else operand

    def _taken(self, node: Node, axis: int) -> Node:
        taken = slice_axis(node, axis, self.start, self.limit)
        return self._without(taken, axis) if self.dropped else taken

    def _without(self, node: Node, axis: int) -> Node:
        return build.reshape(node, [*node.shape[:axis], *node.shape[axis + 1 :]])
