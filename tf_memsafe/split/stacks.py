"""Finds what a loop keeps of every step for the loop that computes its gradient."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tf_memsafe.hlo.node import Graph, Node, Region
from tf_memsafe.hlo.order import topological, users
from tf_memsafe.split.counted import Affine, CountedLoop, counted_loops

NOWHERE = Affine(0)


@dataclass(frozen=True)
class Stack:
    """A tensor that one loop fills, an entry a step, and another reads from the end.

    written, read: its positions in the two loops' states. entry: what the forward body writes, with
    an axis of 1 in front. reads: the nodes of the backward body that are an entry again.
    """

    written: int
    read: int
    entry: Node
    reads: tuple[Node, ...]


@dataclass(frozen=True)
class LoopPair:
    """A loop, and the loop that goes back through its steps and reads its stacks.

    state: the positions in the forward state of what one needs, beside counters and invariant
    values, to compute the entries of a step.
    """

    forward: CountedLoop
    backward: CountedLoop
    stacks: tuple[Stack, ...]
    state: tuple[int, ...]

    @property
    def trips(self) -> int:
        return self.forward.trips

    @property
    def entry_bytes(self) -> int:
        """Of one step's entries in all stacks."""
        return sum(stack.entry.type.bytes for stack in self.stacks)

    @property
    def state_bytes(self) -> int:
        """Of the state from which one step's entries can be computed again."""
        return sum(self.forward.body.parameters[p].type.bytes for p in self.state)


def find_pairs(graph: Graph) -> list[LoopPair]:
    """The pairs of loops whose stacks need not be kept, those with the largest stacks first.

    Only what is certain: the numbers of steps are known and equal; a stack is written once a step,
    at the step's index, read at the index of the same step, and used by nothing else.
    """
    nodes = topological(graph.outputs)
    loops, used_by = counted_loops(nodes), users(nodes)
    found = []
    for backward in loops.values():
        forwards = [loops[n] for n in _producers(backward.node) if n in loops]
        for forward in forwards:
            if forward.trips == backward.trips > 1:
                pair = _pair(forward, backward, used_by, graph.outputs)
                found += [pair] if pair else []
    return sorted(found, key=lambda pair: -pair.trips * pair.entry_bytes)


def _producers(loop: Node) -> Iterable[Node]:
    operands = (o for o in loop.operands if o.name == "get_tuple_element")
    return dict.fromkeys(operand.operands[0] for operand in operands)


def _pair(
    forward: CountedLoop,
    backward: CountedLoop,
    used_by: dict[Node, list[Node]],
    outputs: tuple[Node, ...],
) -> LoopPair | None:
    writer, reader = _Body(forward), _Body(backward)
    passed_on = {node["index"] for node in used_by[backward.node] if node.operands}
    stacks = []
    for position, operand in enumerate(backward.node.operands):
        from_forward = operand.name == "get_tuple_element" and operand.operands[0] is forward.node
        if not from_forward or operand in outputs or position in passed_on:
            continue
        once = backward.node.operands.count(operand) == 1 and used_by[operand] == [backward.node]
        stack = _stack(writer, operand["index"], reader, position) if once else None
        stacks += [stack] if stack else []
    needed = writer.needed([stack.entry for stack in stacks])
    if not stacks or needed is None:
        return None
    return LoopPair(forward, backward, tuple(stacks), needed)


def _stack(writer: _Body, written: int, reader: _Body, read: int) -> Stack | None:
    write = writer.write(written)
    reads = reader.reads(read)
    if write is None or reads is None:
        return None
    first = writer.start_of(write)
    length = write.shape[0]
    if first is None or first.step != 1 or not 0 <= first.start <= length - writer.loop.trips:
        return None
    # The backward loop's first step is about the forward loop's last.
    expected = Affine(first.start + writer.loop.trips - 1, -1)
    if any(reader.start_of(node) != expected for node in reads):
        return None
    return Stack(written, read, write.operands[1], tuple(reads))


class _Body:
    """What a loop's body does with the values of its state."""

    def __init__(self, loop: CountedLoop) -> None:
        self.loop = loop
        self._known = loop.known_numbers()
        self._used_by = users(_inside(loop.body))
        condition = loop.node.regions[0]
        tested = {d for node in _inside(condition) for d in node.dependencies}
        self._tested = {p for p, node in enumerate(condition.parameters) if node in tested}

    def write(self, position: int) -> Node | None:
        """The node that puts one entry into a value of the state, if that is all its use."""
        stack, update = (
            side[position] for side in (self.loop.body.parameters, self.loop.body.results)
        )
        if update.name != "dynamic_update_slice" or update.operands[0] is not stack:
            return None
        alone = self._used_by.get(stack) == [update] and not self._used_by[update]
        returned = self.loop.body.results.count(update) == 1 and stack not in self.loop.body.results
        entry = update.operands[1].shape == (1, *stack.shape[1:])
        kept_out = position not in self._tested and update.dependencies.count(stack) == 1
        return update if alone and returned and entry and kept_out else None

    def reads(self, position: int) -> list[Node] | None:
        """The nodes that take an entry from a value of the state, if those are all its uses."""
        stack = self.loop.body.parameters[position]
        passed_on = position in self.loop.invariant and self.loop.body.results.count(stack) == 1
        if not passed_on or position in self._tested:
            return None
        reads = self._used_by.get(stack, [])
        shape = (1, *stack.shape[1:])
        entries = all(node.name == "dynamic_slice" and node.shape == shape for node in reads)
        return reads if entries else None

    def start_of(self, node: Node) -> Affine | None:
        """Where a dynamic slice starts on its first axis, if it starts at 0 on all others."""
        rank = node.operands[0].tensor.rank
        first, *others = (self._known.get(start) for start in node.operands[-rank:])
        return first if all(other == NOWHERE for other in others) else None

    def needed(self, entries: Iterable[Node]) -> tuple[int, ...] | None:
        """The changing values that the entries are made of, step after step; None if at random."""
        body, found = self.loop.body, dict[int, None]()
        roots = list(entries)
        while True:
            nodes = topological(roots, set(body.captures))
            if any(_has_effects(node) for node in nodes):
                return None
            reached = set(nodes).intersection(body.parameters)
            new = [
                position
                for position, parameter in enumerate(body.parameters)
                if parameter in reached and not self._is_known(position) and position not in found
            ]
            if not new:
                return tuple(found)
            found.update(dict.fromkeys(new))
            roots += [body.results[p] for p in new]

    def _is_known(self, position: int) -> bool:
        return position in self.loop.counters or position in self.loop.invariant


def _inside(region: Region) -> list[Node]:
    return topological(region.results, {*region.parameters, *region.captures})


def _has_effects(node: Node) -> bool:
    inside = (inner for region in node.regions for inner in _inside(region))
    return node.op.effects or any(map(_has_effects, inside))
