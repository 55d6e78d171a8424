"""Small groups that lie one after the other in memory, put side by side before they are reduced.

The largest of each 8 distances is found in vectors only if the first of all groups lie side by
side, then the second, and so on. Where distances are computed of much smaller points, it is these
that are put in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.rewrite.maths import (
    filled,
    repeated_value,
    slice_axis,
    transpose,
    with_shape,
)
from tf_memsafe.rewrite.readers import COMPUTED, readers
from tf_memsafe.rewrite.rule import Outcome, Skip, Uses, rule_with_uses

LARGEST_GROUP = 32
"""Elements of a group. XLA reduces more in two steps, and stores those of the first."""

FEWEST_ELEMENTS = 100_000
"""Of what is reduced, for which the compilation of another program is worth while."""

LEAST_REPEATS = 4
"""How many times larger what is reduced is to be than what is put into another order for it."""

MOST_LEAVES = 10
"""Values that it is computed of, two for each coordinate of distances. With 16, XLA's compiler
gives up on vectors (it would have to rule out that the result overlaps any of them), and is slower
than with groups one after the other."""


@rule_with_uses("reduce")
def groups_side_by_side(node: Node, uses: Uses) -> Outcome:
    """max(reshape(f(x), [n / 8, 8]), -1) => max(f(transpose(reshape(x, [n / 8, 8]))), -2)

    For an x that is much smaller than f(x), which nothing else reads whole. Exact but for the
    rounding of sums, whose terms may be added in another order.
    """
    if not _reduces_groups(node):
        return None
    grouped = node.operands[0]
    move = _Move(grouped.shape)
    moved = move.grouped(grouped)
    if moved is None or not move.leaves:
        return None
    if refusal := _refusal(grouped, move, uses):
        return refusal
    attributes = {"dimensions": (grouped.tensor.rank - 2,)}
    return build.emit("reduce", (moved, node.operands[1]), attributes, regions=node.regions)


def _reduces_groups(node: Node) -> bool:
    """Whether it reduces the last axis, a short one, of many computed elements."""
    grouped = node.operands[0]
    if len(node.operands) != 2 or grouped.tensor.size < FEWEST_ELEMENTS or grouped.tensor.rank < 2:
        return False
    *_, groups, size = grouped.shape
    is_last = node["dimensions"] == (grouped.tensor.rank - 1,)
    computed = grouped.name in COMPUTED | {"reshape"}
    return is_last and computed and 1 < size <= LARGEST_GROUP <= groups


def _refusal(grouped: Node, move: _Move, uses: Uses) -> Skip | None:
    """Why groups that could be side by side are to stay one after the other."""
    if len(move.leaves) > MOST_LEAVES:
        return Skip(f"it is computed of {len(move.leaves)} values, too many to be read in vectors")
    leaves = sum(leaf.tensor.size for leaf in move.leaves)
    if LEAST_REPEATS * leaves > grouped.tensor.size:
        return Skip(f"{grouped.tensor.size} elements are few to be computed of {leaves}")
    if len({reader for node in move.computed for reader in readers(node, uses)}) > 1:
        return Skip("it would be computed again for each of its users")
    return None


class _Move:
    """Of values [..., groups, size], the same as [..., size, groups].

    computed: the values for which that was looked for so far. leaves: the smaller ones of which
    they are computed. None of a method says that a value is not, element by element.
    """

    def __init__(self, shape: Sequence[int]) -> None:
        *self._lead, self._groups, self._size = shape
        self._shape = (*self._lead, self._size, self._groups)
        self.computed: dict[Node, Node | None] = {}
        self.leaves: set[Node] = set()

    def grouped(self, node: Node) -> Node | None:
        """Of a value [..., groups, size]."""
        if node.name == "reshape":
            operand = node.operands[0]
            flat = (*self._lead, self._groups * self._size)
            return self._flat(operand) if operand.shape == flat else None
        return self._computed(node, self.grouped)

    def _flat(self, node: Node) -> Node | None:
        """Of a value [..., n], of which the first are in groups and the rest in none."""
        if node.name == "slice":
            (operand,) = node.operands
            starts_alike = not any(node["start_indices"]) and set(node["strides"]) == {1}
            same = starts_alike and operand.shape[:-1] == node.shape[:-1]
            return self._flat(operand) if same else None
        if node.name == "broadcast_in_dim" and repeated_value(node) is None:
            return self._repeated(node)
        return self._computed(node, self._flat)

    def _computed(self, node: Node, operand_of: Callable[[Node], Node | None]) -> Node | None:
        if node not in self.computed:
            self.computed[node] = self._newly_computed(node, operand_of)
        return self.computed[node]

    def _newly_computed(self, node: Node, operand_of: Callable[[Node], Node | None]) -> Node | None:
        value = repeated_value(node)
        if value is not None:
            return filled(value, node, self._shape)
        if node.name not in COMPUTED or not node.operands:
            return None
        operands = []
        for operand in node.operands:
            if operand.shape and operand.shape != node.shape:
                return None
            moved = operand_of(operand) if operand.shape else operand
            if moved is None:
                return None
            operands.append(moved)
        return with_shape(node, operands, self._shape)

    def _repeated(self, node: Node) -> Node:
        """Of a smaller value that is repeated along some axes."""
        (operand,) = node.operands
        self.leaves.add(operand)
        places: list[int] = list(node["broadcast_dimensions"])
        last = len(self._lead)
        if last not in places:
            return build.broadcast(operand, self._shape, places)
        own = places.index(last)
        places[own : own + 1] = [last, last + 1]
        return build.broadcast(self._side_by_side(operand, own), self._shape, places)

    def _side_by_side(self, x: Node, axis: int) -> Node:
        """The groups along an axis, as [..., size, groups, ...]; an axis of one element as two."""
        if x.shape[axis] == 1:
            return build.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))
        whole = slice_axis(x, axis, 0, self._groups * self._size)
        shape = (*x.shape[:axis], self._groups, self._size, *x.shape[axis + 1 :])
        order = list(range(len(shape)))
        order[axis], order[axis + 1] = axis + 1, axis
        return transpose(build.reshape(whole, shape), order)
