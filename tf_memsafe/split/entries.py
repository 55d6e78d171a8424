"""Computes one step's part of values outside a loop, inside it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.op import Chunk, Cut
from tf_memsafe.hlo.order import topological
from tf_memsafe.split.chunk import chunk_node
from tf_memsafe.split.cuts import Request, Span, operand_cuts, pieces, steps_of
from tf_memsafe.split.stacks import is_loop_result


def computed_alone(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    """What a chunk of the node needs of each operand, if that is all it needs."""
    return None if node.op.carry(node, cut) else operand_cuts(node, cut)


FIRST_AXIS = Cut(0)
"""Of a stack: one entry a step."""


@dataclass(frozen=True)
class Work:
    """What is computed in each step (`members`, operands first), and what that needs from around.

    Some of the values around are needed whole, and of some a part is sliced.
    """

    members: list[Request]
    around: set[Node]


def work_for(wanted: Iterable[Request], again: Collection[Node] = ()) -> Work:
    """What it takes to compute the parts that are wanted: all in the step that can be.

    What has only one step is the same in all, and computed around; but for the nodes in `again`.
    """
    members: dict[Request, None] = {}
    around: set[Node] = set()
    pending = list(wanted)
    roots = [node for node, _ in pending]
    while pending:
        node, cut = pending.pop()
        needed = _needed_inside(node, cut, again)
        if needed is None:
            around.add(node)
            continue
        members[node, cut] = None
        pairs = list(zip(node.operands, needed, strict=True))
        around.update(operand for operand, its_cut in pairs if its_cut is None)
        pending += [(o, c) for o, c in pairs if c is not None and (o, c) not in members]
    position = {node: index for index, node in enumerate(topological(roots))}
    return Work(sorted(members, key=lambda request: position[request[0]]), around)


def _needed_inside(node: Node, cut: Cut, again: Collection[Node]) -> tuple[Cut | None, ...] | None:
    """What a part of the node needs of each operand if it is computed in the step."""
    if is_loop_result(node) or not (node in again or steps_of(node, cut) > 1):
        return None
    needed = computed_alone(node, cut)
    if needed is None or node.name != "get_tuple_element":
        return needed
    # Of what has several results no part can be sliced: where it exists whole, one of its results.
    (operand,), (its_cut,) = node.operands, needed
    made = its_cut is not None and _needed_inside(operand, its_cut, again) is not None
    return needed if made else None


class Entries:
    """The parts of values that belong to one step.

    step: the step, a scalar i32, counted as the cuts count it. given: parts that are known.
    Where an axis does not reach the step, a part of it is any value.
    """

    def __init__(self, step: Node, given: Mapping[Request, Node]) -> None:
        self._chunk = Chunk(step, 1)
        self._parts = dict(given)

    def compute(self, members: Iterable[Request]) -> None:
        """Computes the parts of these values, operands first; others are sliced."""
        for node, cut in members:
            needed = computed_alone(node, cut)
            assert needed is not None
            if (node, cut) not in self._parts:
                self._parts[node, cut] = self._computed(node, cut, needed)

    def operands(self, node: Node, needed: Sequence[Cut | None]) -> list[Node]:
        """The node's operands: parts of those that are cut."""
        pairs = zip(node.operands, needed, strict=True)
        return [operand if cut is None else self.part(operand, cut) for operand, cut in pairs]

    def part(self, node: Node, cut: Cut) -> Node:
        """The part of a value: as computed, or sliced from where it exists whole."""
        if (node, cut) not in self._parts:
            self._parts[node, cut] = self._sliced(node, cut)
        return self._parts[node, cut]

    def _sliced(self, node: Node, cut: Cut) -> Node:
        steps = steps_of(node, cut)
        if steps == 1:
            return node
        part = node.tensor.with_axis(cut.axis, cut.unit)
        if not steps:  # an axis without elements reaches no step
            return build.zeros(part)
        return build.dynamic_slice(node, self.starts(node.tensor.rank, cut), part.shape)

    def starts(self, rank: int, cut: Cut) -> list[Node]:
        """Where the step's part of a value begins, on each axis."""
        starts = [build.index(0)] * rank
        starts[cut.axis] = self.start(cut)
        return starts

    def start(self, cut: Cut) -> Node:
        """Where the step's part begins on the axis that is cut."""
        return build.chunk_start(self._chunk, cut)

    def within(self, span: Span, inside: Node, outside: Node) -> Node:
        """One value in the steps of a span, another in those around it."""
        above = build.compare(self._chunk.offset, build.index(span.first), "GE")
        below = build.compare(self._chunk.offset, build.index(span.stop), "LT")
        return build.emit("select", (build.emit("and", (above, below)), inside, outside))

    def _computed(self, node: Node, cut: Cut, needed: Sequence[Cut | None]) -> Node:
        operands = self.operands(node, needed)
        runs = pieces(node, cut)
        if not runs:
            return chunk_node(node, cut, operands, self._chunk)
        shape = node.tensor.with_axis(cut.axis, cut.unit).shape
        parts = [(span, _repeated(operands[index], shape)) for span, index in runs]
        found = parts[-1][1]
        for span, part in parts[:-1]:
            found = self.within(span, part, found)
        return found


def _repeated(part: Node, shape: Sequence[int]) -> Node:
    return part if part.shape == tuple(shape) else build.broadcast(part, shape)
