"""Finds loops that go over the same steps, and what they keep of every step for each other.

Under XLA the gradient of a loop is a second loop, which goes back through the steps and reads what
the first stacked up in each. The gradient of both is two more, and a second layer of a network is
another loop that reads the first one's stack. Each sweeps over the same steps, up or down.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.order import topological, users
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.split.counted import Affine, CountedLoop, counted_loops
from tf_memsafe.split.stacks import LoopBody, Stack, has_effects, is_loop_result


@dataclass(frozen=True)
class Sweep:
    """A loop that goes over the steps of a group, up or down.

    stacks: what it puts into each stack that other sweeps of the group read, and nothing else
    does, by its position in the state. reads: the nodes of its body that are an entry of an earlier
    sweep's stack, each with the sweep's place in the group and the position there. needed: the
    positions of what the stacks' entries are made of, step after step.
    """

    loop: CountedLoop
    upwards: bool
    stacks: Mapping[int, Node]
    reads: Mapping[Node, tuple[int, int]]
    needed: tuple[int, ...]

    @property
    def carried(self) -> list[int]:
        """The positions of the state, but for the step and those stacks."""
        return [p for p, _ in enumerate(self.loop.node.results) if p and p not in self.stacks]

    @property
    def entry_bytes(self) -> int:
        """Of what one step puts into the stacks."""
        return sum(entry.type.bytes for entry in self.stacks.values())

    @property
    def state_bytes(self) -> int:
        """Of what one step's entries can be computed from."""
        return sum(self.loop.body.parameters[p].type.bytes for p in self.needed)


@dataclass(frozen=True)
class Group:
    """Sweeps over the same `trips` steps that read each other's stacks, the first one first."""

    sweeps: tuple[Sweep, ...]

    @property
    def key(self) -> Node:
        """What stays the same while other loops of the graph are changed."""
        return self.sweeps[0].loop.body.parameters[0]

    @property
    def trips(self) -> int:
        return self.sweeps[0].loop.trips

    @property
    def entry_bytes(self) -> int:
        return sum(sweep.entry_bytes for sweep in self.sweeps)

    @property
    def state_bytes(self) -> int:
        return sum(sweep.state_bytes for sweep in self.sweeps)

    def sources(self, number: int) -> list[int]:
        """The sweeps whose steps have to be known for those of one, in order."""
        found: set[int] = set()
        pending = [number]
        while pending:
            direct = {writer for writer, _ in self.sweeps[pending.pop()].reads.values()}
            pending += direct - found
            found |= direct
        return sorted(found)


def find_groups(graph: Graph) -> list[Group]:
    """The groups of loops whose stacks need not be kept, those with the largest stacks first.

    graph: with loops as `normal_loops` writes them. Only what is certain: the numbers of steps are
    known and equal; a stack is written once a step and read in the same step, or in the same
    counted from the end, and used by nothing else; its entries can be computed again.
    """
    groups = (group for group in _Finder(graph).groups() if group.entry_bytes)
    return sorted(groups, key=lambda group: -group.trips * group.entry_bytes)


class KeptStack(NamedTuple):
    """A tensor that a loop fills and that has to exist whole, and why."""

    loop: Node
    type: TensorType
    reason: str


UNKNOWN_STEPS = "how many steps the loop takes is not known before it runs"
RETURNED = "the function returns it"
RANDOM = "what each step puts into it is random, and cannot be drawn again"
OTHER_ORDER = "another loop reads it in an order that is not that of the steps"


def kept_stacks(graph: Graph) -> list[KeptStack]:
    """What the loops of a graph, as `normal_loops` writes them, have to keep of every step."""
    return _Finder(graph).kept


@dataclass(frozen=True, eq=False)
class _Link:
    """A stack that one loop writes, with its reads in each of the loops that use it."""

    writer: CountedLoop
    position: int
    stack: Stack
    reads: Mapping[Node, Mapping[Node, Affine]]

    @property
    def type(self) -> TensorType:
        return self.writer.node.results[self.position]

    def turns(self, reader: Node) -> bool | None:
        """Whether the reader goes through the steps the other way; None if in another order."""
        same = self.stack.index
        turned = Affine(same.at(self.writer.trips - 1), -same.step)
        orders = {frozenset((same,)): False, frozenset((turned,)): True}
        return orders.get(frozenset(self.reads[reader].values()))


class _Finder:
    def __init__(self, graph: Graph) -> None:
        nodes = topological(graph.outputs)
        loops = counted_loops(nodes)
        self._outputs = frozenset(graph.outputs)
        self._used_by = users(nodes)
        self._bodies = {node: LoopBody(loop) for node, loop in loops.items() if loop.trips > 1}
        self._links: list[_Link] = []
        self.kept: list[KeptStack] = []
        for node in nodes:
            if node.name == "while" and node not in loops:
                self.kept += [KeptStack(node, type_, UNKNOWN_STEPS) for type_ in node.results]
            elif is_loop_result(node):
                self._add(node)
        self._upwards = self._turn()

    def _add(self, result: Node) -> None:
        """Puts a loop's result among the links, or among what is kept, if it is a stack."""
        loop = result.operands[0]
        writer = self._bodies.get(loop)
        stack = writer.written(result["index"]) if writer else None
        if writer and stack:
            reads = {user: self._reads(writer, user, result) for user in self._used_by[result]}
            link = _Link(writer.loop, result["index"], stack, reads)
            if reason := self._reason(link, result):
                self.kept.append(KeptStack(loop, link.type, reason))
            else:
                self._links.append(link)

    def _reason(self, link: _Link, result: Node) -> str | None:
        """Why the stack has to be kept, if it has to."""
        if result in self._outputs:
            return RETURNED
        for user, reads in link.reads.items():
            if not reads:
                is_loop = user.name == "while"
                return OTHER_ORDER if is_loop else f"{user.name} needs all of it at once"
        if _needed(link.writer, [link.stack.entry]) is None:
            return RANDOM
        turns = [link.turns(user) for user in link.reads]
        return OTHER_ORDER if None in turns else None

    def _reads(self, writer: LoopBody, reader: Node, stack: Node) -> dict[Node, Affine]:
        """The reads of a loop over as many steps; none if it does something else with the stack."""
        body = self._bodies.get(reader)
        if body is None or body.loop.trips != writer.loop.trips or stack in reader.operands:
            return {}
        return body.reads(stack) or {}

    def _turn(self) -> dict[Node, bool]:
        """Which loops go up, if the first of a group does; links that disagree are dropped."""
        upwards: dict[Node, bool] = {}
        for first in self._bodies:
            pending = [] if first in upwards else [first]
            upwards.setdefault(first, True)
            for node in pending:  # which grows
                for other, turns in self._linked(node):
                    if other not in upwards:
                        upwards[other] = upwards[node] != turns
                        pending.append(other)
        for link in tuple(self._links):
            up = upwards[link.writer.node]
            if any(upwards[reader] != (up != link.turns(reader)) for reader in link.reads):
                self._links.remove(link)
                self.kept.append(KeptStack(link.writer.node, link.type, OTHER_ORDER))
        return upwards

    def _linked(self, node: Node) -> Iterator[tuple[Node, bool]]:
        """The loops that share a stack with one, and whether they go the other way."""
        for link in self._links:
            for reader in link.reads:
                if node in (reader, link.writer.node):
                    other = reader if node is link.writer.node else link.writer.node
                    yield other, bool(link.turns(reader))

    def groups(self) -> list[Group]:
        """What is linked, together."""
        groups: list[set[Node]] = []
        for link in self._links:
            members = {link.writer.node, *link.reads}
            apart = [group for group in groups if not group & members]
            groups = [*apart, members.union(*(group for group in groups if group & members))]
        return [self._group(members) for members in groups]

    def _group(self, members: set[Node]) -> Group:
        ordered = [node for node in self._bodies if node in members]
        return Group(tuple(self._sweep(node, ordered) for node in ordered))

    def _sweep(self, node: Node, ordered: list[Node]) -> Sweep:
        written = [link for link in self._links if link.writer.node is node]
        stacks = {link.position: link.stack.entry for link in written}
        reads = {
            read: (ordered.index(link.writer.node), link.position)
            for link in self._links
            for read in link.reads.get(node, ())
        }
        loop = self._bodies[node].loop
        needed = _needed(loop, stacks.values(), reads)
        assert needed is not None
        return Sweep(loop, self._upwards[node], stacks, reads, needed)


def _needed(
    loop: CountedLoop, entries: Iterable[Node], reads: Collection[Node] = ()
) -> tuple[int, ...] | None:
    """The values of the state that the entries are made of, step after step; None if at random."""
    body, roots = loop.body, list(entries)
    found: dict[int, None] = {}
    for root in roots:  # which grows
        nodes = set(topological([root], {*body.captures, *reads}))
        if any(has_effects(node) for node in nodes):
            return None
        for position, parameter in enumerate(body.parameters):
            if parameter in nodes and position not in found and position not in loop.counters:
                found[position] = None
                roots.append(body.results[position])
    return tuple(found)
