"""Puts what has to be computed into loops: in which order, and what shares one (DESIGN 6.2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.op import Cut
from tf_memsafe.split.cuts import Asked, Request, Span, Way, pieces, requests, way_along
from tf_memsafe.split.program import Program


@dataclass(frozen=True)
class LoopPlan:
    """One loop: what it computes (`sinks`), and what it recomputes in each chunk (`members`).

    backwards: whether it takes the last chunk first. boundaries: steps that no chunk may straddle.
    """

    level: int
    span: Span
    sinks: dict[Node, Way]
    members: tuple[Request, ...]
    backwards: bool = False
    boundaries: tuple[int, ...] = ()

    @property
    def steps(self) -> int:
        return self.span.steps

    @property
    def segments(self) -> list[Span]:
        """The runs of steps between boundaries, in the order in which they are computed."""
        found = [
            Span(*ends) for ends in pairwise((self.span.first, *self.boundaries, self.span.stop))
        ]
        return found[::-1] if self.backwards else found

    def trips(self, chunk: int) -> int:
        """How many chunks of at most `chunk` steps it takes."""
        return sum(ceil(segment.steps / chunk) for segment in self.segments)

    @property
    def streamed(self) -> list[Node]:
        """The members, each once."""
        return list(dict.fromkeys(node for node, _ in self.members))

    @property
    def computed(self) -> list[Node]:
        """All that a chunk computes: the members and the sinks, each once."""
        return list(dict.fromkeys((*self.streamed, *self.sinks)))

    @property
    def computations(self) -> list[Node]:
        """The same, each as often as a chunk computes it: once for each axis that it is cut along.

        A matrix of which a chunk needs rows and columns is computed twice.
        """
        wanted = [*self.members, *((node, way.cut) for node, way in self.sinks.items())]
        return [node for node, _ in dict.fromkeys((node, cut and cut[:2]) for node, cut in wanted)]


class Arrangement:
    """The loops that compute the sinks of a program.

    computed: the chunks that loops compute, users first, each with the steps in which it is wanted.
    whole: what exists whole.
    blocked: values that loops would have to compute from the first chunk to the last and from the
    last to the first; each with a user that is to blame. If there are any, there are no loops.
    """

    def __init__(
        self,
        program: Program,
        computed: Mapping[Request, Collection[Span]],
        sinks: dict[Node, Way],
        whole: Collection[Node],
    ) -> None:
        self._program = program
        self._computed = computed
        self._sinks = sinks
        self._levels: dict[Request, int] = {}
        self._ready: dict[Node, int] = {}
        self._directions: dict[Request, frozenset[bool]] = {}
        self.blocked: dict[Node, Node] = {}
        self._find_levels(whole)
        self.loops = self.find_loops()

    # --- how many loops have to run before each value is there, and in which direction ---

    def _find_levels(self, whole: Collection[Node]) -> None:
        cuts: dict[Node, list[Cut]] = defaultdict(list)
        for node, cut in self._computed:
            cuts[node].append(cut)
        for node in self._program.nodes:
            for cut in cuts[node]:
                way = way_along(node, cut)
                asked = [
                    requests(node, cut, way.operands, span) for span in self._computed[node, cut]
                ]
                self._levels[node, cut] = max(self._level(node, each) for each in asked)
                found = [self._direction(node, way, each) for each in asked]
                self._directions[node, cut] = frozenset[bool]().union(*found)
            if node in self._sinks:
                way = self._sinks[node]
                needed = requests(node, way.cut, way.operands, way.span)
                self._ready[node] = self._level(node, needed) + 1
                self._direction(node, way, needed)
            elif node in whole:
                self._ready[node] = self._latest(node.dependencies)

    def _level(self, node: Node, asked: Sequence[Asked]) -> int:
        found = [self._latest(node.dependencies[len(node.operands) :])]
        for operand, cut, _ in asked:
            level = None if cut is None else self._levels.get((operand, cut))
            found.append(self._ready.get(operand, 0) if level is None else level)
        return max(found)

    def _latest(self, values: Sequence[Node]) -> int:
        """The first level at which all these are there whole; what is known is from the start."""
        return max((self._ready.get(value, 0) for value in values), default=0)

    def _direction(self, node: Node, way: Way, asked: Sequence[Asked]) -> frozenset[bool]:
        """Whether the way needs its chunks backwards, forwards, or does not mind."""
        needs = [
            (operand, directions)
            for operand, cut, _ in asked
            if cut is not None and (directions := self._directions.get((operand, cut)))
        ]
        found = frozenset[bool]().union(*(directions for _, directions in needs))
        own = _own_direction(node, way)
        if own is None and len(found) < 2:
            return found
        kept = bool(own)
        self.blocked |= {value: node for value, need in needs if (not kept) in need}
        return frozenset((kept,))

    # --- which sinks share a loop ---

    def find_loops(self, kept: Collection[Node] = ()) -> list[LoopPlan]:
        """The sinks of one level over the same steps share a loop, and all their chunks.

        kept: values that the first loop to compute them stores for the later ones.
        """
        if self.blocked:
            return []
        self._keepable = self._program.between | frozenset(kept)
        self._stored: dict[Node, int] = {}
        grouped: dict[tuple[int, Span], dict[Node, Way]] = defaultdict(dict)
        for node in self._program.nodes:
            if node in self._sinks:
                way = self._sinks[node]
                grouped[self._ready[node] - 1, way.span][node] = way
        loops = []
        while grouped:
            level, span = max(grouped)
            for backwards, sinks in self._one_way(grouped.pop((level, span))):
                members, stored = self._expand(level, sinks)
                for (node, cut), way in stored.items():
                    grouped[self._levels[node, cut], way.span][node] = way
                edges = tuple(sorted(_boundaries(span, sinks, members)))
                loops.append(LoopPlan(level, span, sinks, members, backwards, edges))
        return loops[::-1]

    def _one_way(self, sinks: dict[Node, Way]) -> Iterator[tuple[bool, dict[Node, Way]]]:
        """The sinks that take their chunks forwards, and those that take them backwards."""
        directions = {
            node: self._direction(node, way, requests(node, way.cut, way.operands, way.span))
            for node, way in sinks.items()
        }
        if not any(False in direction for direction in directions.values()):
            yield any(directions.values()), sinks
            return
        for backwards in (False, True):
            found = {n: way for n, way in sinks.items() if (True in directions[n]) is backwards}
            if found:
                yield backwards, found

    def _expand(
        self, level: int, sinks: dict[Node, Way]
    ) -> tuple[tuple[Request, ...], dict[Request, Way]]:
        """The chunks a loop computes, and the small values an earlier loop has to keep for it."""
        members: dict[Request, None] = {}
        stored: dict[Request, Way] = {}
        pending = [
            asked
            for node, way in sinks.items()
            for asked in requests(node, way.cut, way.operands, way.span)
        ]
        seen = set()
        while pending:
            node, cut, span = asked = pending.pop()
            if cut is None or (node, cut) not in self._computed or asked in seen:
                continue
            seen.add(asked)
            way = way_along(node, cut)
            if node in self._keepable and self._ready_for_loops(node, cut) <= level:
                if node not in self._sinks and node not in self._stored:
                    stored[node, cut] = way
                    self._stored[node] = self._levels[node, cut] + 1
                continue
            members[node, cut] = None
            pending.extend(requests(node, cut, way.operands, span))
        position = self._program.position
        return tuple(sorted(members, key=lambda request: position[request[0]])), stored

    def _ready_for_loops(self, node: Node, cut: Cut) -> int:
        """The first level whose loops can read the value, if an earlier one is to store it."""
        stored = self._stored.get(node, self._levels[node, cut] + 1)
        return self._ready[node] if node in self._sinks else stored


def _own_direction(node: Node, way: Way) -> bool | None:
    if way.contraction is not None:
        return False if way.contraction.ordered else None
    assert way.cut is not None
    carry = node.op.carry(node, way.cut)
    return None if carry is None else carry.backwards


def _boundaries(span: Span, sinks: dict[Node, Way], members: Sequence[Request]) -> set[int]:
    """The steps of the span at which a value begins to be made of another operand."""
    cuts = [*members, *((node, way.cut) for node, way in sinks.items())]
    edges = {
        edge
        for node, cut in cuts
        if cut is not None
        for piece, _ in pieces(node, cut)
        for edge in piece
    }
    return {edge for edge in edges if span.first < edge < span.stop}
