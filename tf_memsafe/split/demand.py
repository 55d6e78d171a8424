"""Which values exist whole, which are recomputed chunk by chunk, and by which loop (DESIGN 6.2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.op import Cut
from tf_memsafe.split.cuts import Way, axis_sizes, operand_cuts, steps_of, ways
from tf_memsafe.split.program import Program

Request = tuple[Node, Cut]
"""A value wanted in chunks of this cut."""


@dataclass(frozen=True)
class LoopPlan:
    """One loop: what it computes (`sinks`), and what it recomputes in each chunk (`members`)."""

    level: int
    steps: int
    sinks: dict[Node, Way]
    members: tuple[Request, ...]

    @property
    def streamed(self) -> list[Node]:
        """The members, each once."""
        return list(dict.fromkeys(node for node, _ in self.members))

    @property
    def computed(self) -> list[Node]:
        """All that a chunk computes: the members and the sinks, each once."""
        return list(dict.fromkeys((*self.streamed, *self.sinks)))


class Demand:
    """Asks each output for its whole value, and follows what that takes.

    cuts: the axis chosen for each streamed value. blocked: the streamed values that turn out to be
    needed whole, each with the user that is to blame (itself, if it cannot be cut this way). If
    there are any, there are no loops: the values have to be pinned, and asked for anew.
    """

    def __init__(self, program: Program, cuts: dict[Node, Cut]) -> None:
        self._program = program
        self._cuts = cuts
        self._chunks: dict[Node, dict[Cut, None]] = defaultdict(dict)
        self._whole: dict[Node, Node] = {output: output for output in program.graph.outputs}
        self._computed: set[Request] = set()
        self.sinks: dict[Node, Way] = {}
        self.blocked: dict[Node, Node] = {}
        self.loops: list[LoopPlan] = []
        for node in reversed(program.nodes):
            self._follow_chunks(node)
            self._follow_whole(node)
        if not self.blocked:
            self.levels, self._ready = self._find_levels()
            self.loops = self._find_loops()

    # --- backwards: what is asked of each value ---

    def _follow_chunks(self, node: Node) -> None:
        for cut in self._chunks.get(node, ()):
            needed = operand_cuts(node, cut)
            streamed = node in self._program.streamed
            if needed is None or not (streamed or self._computed_in_chunks(node, cut, needed)):
                self._whole.setdefault(node, node)
                continue
            self._computed.add((node, cut))
            self._ask(node, needed)

    def _computed_in_chunks(self, node: Node, cut: Cut, needed: Sequence[Cut | None]) -> bool:
        """Whether a small value is computed in the loop that wants it, not in one of its own."""
        if node in self._program.virtual:
            return True
        if node not in self._program.between or self._cuts.get(node) != cut:
            return False
        if node.name == "get_tuple_element" and node.operands[0] not in self._program.streamed:
            needed_above = operand_cuts(node.operands[0], cut)
            return needed_above is not None and self._computed_in_chunks(
                node.operands[0], cut, needed_above
            )
        return all(
            wanted is not None and self._cuts.get(operand) == wanted
            for operand, wanted in zip(node.operands, needed, strict=True)
            if operand in self._program.streamed
        )

    def _follow_whole(self, node: Node) -> None:
        if node not in self._whole:
            return
        if node in self._program.streamed:
            self.blocked[node] = self._whole[node]
        way = self._best_way(node)
        if way is not None:
            self.sinks[node] = way
        self._ask(node, way.operands if way else (None,) * len(node.operands))

    def _ask(self, user: Node, needed: Sequence[Cut | None]) -> None:
        for operand, cut in zip(user.operands, needed, strict=True):
            if cut is None:
                self._whole.setdefault(operand, user)
            else:
                self._chunks[operand][cut] = None
        for dependency in user.dependencies[len(user.operands) :]:
            self._whole.setdefault(dependency, user)

    def _best_way(self, node: Node) -> Way | None:
        """The way whose chunks of streamed operands are those the other sinks take as well.

        None if no operand is streamed, or if the node needs one of them whole.
        """
        streamed = [o for o in node.operands if o in self._program.streamed]
        possible = [way for way in self._ways(node, streamed) if self._feasible(node, way)]
        return max(possible, key=lambda way: self._agreement(node, way), default=None)

    def _ways(self, node: Node, streamed: Iterable[Node]) -> list[Way]:
        found: dict[Way, None] = {}
        for operand in streamed:
            for cut in self._possible_cuts(operand):
                found.update(dict.fromkeys(ways(node, steps_of(operand, cut))))
        return list(found)

    def _possible_cuts(self, operand: Node) -> list[Cut]:
        """The cut chosen for a streamed value; any, for one that is made of constants alone."""
        if operand in self._cuts:
            return [self._cuts[operand]]
        return [Cut(axis) for axis, size in enumerate(axis_sizes(operand)) if size > 1]

    def _feasible(self, node: Node, way: Way) -> bool:
        return all(
            wanted is not None and operand_cuts(operand, wanted) is not None
            for operand, wanted in zip(node.operands, way.operands, strict=True)
            if operand in self._program.streamed
        )

    def _agreement(self, node: Node, way: Way) -> tuple[int, bool]:
        matches = sum(
            self._cuts.get(operand) == wanted
            for operand, wanted in zip(node.operands, way.operands, strict=True)
            if operand in self._program.streamed
        )
        return matches, way.cut is not None and way.cut == self._cuts.get(node)

    # --- forwards: how many loops have to run before each value is there ---

    def _find_levels(self) -> tuple[dict[Request, int], dict[Node, int]]:
        levels: dict[Request, int] = {}
        ready: dict[Node, int] = {}

        def level(node: Node, needed: Sequence[Cut | None]) -> int:
            found = [0]
            for operand, cut in zip(node.operands, needed, strict=True):
                request = (operand, cut)
                found.append(levels[request] if request in levels else ready[operand])
            found += [ready[d] for d in node.dependencies[len(node.operands) :]]
            return max(found)

        for node in self._program.nodes:
            for cut in self._chunks.get(node, ()):
                needed = operand_cuts(node, cut)
                if (node, cut) in self._computed and needed is not None:
                    levels[node, cut] = level(node, needed)
            if node in self.sinks:
                ready[node] = level(node, self.sinks[node].operands) + 1
            elif node in self._whole:
                ready[node] = max((ready[d] for d in node.dependencies), default=0)
        return levels, ready

    def _find_loops(self) -> list[LoopPlan]:
        """The sinks of one level and one number of steps share a loop, and all their chunks."""
        grouped: dict[tuple[int, int], dict[Node, Way]] = defaultdict(dict)
        for node in self._program.nodes:
            if node in self.sinks:
                way = self.sinks[node]
                grouped[self._ready[node] - 1, way.steps][node] = way
        loops = []
        while grouped:
            key = max(grouped)
            sinks = grouped.pop(key)
            members, stored = self._expand(key[0], sinks)
            for node, way in stored.items():
                self.sinks[node] = way
                grouped[self.levels[node, way.cut], way.steps][node] = way  # type: ignore[index]
            loops.append(LoopPlan(*key, sinks, members))
        return loops[::-1]

    def _expand(
        self, level: int, sinks: dict[Node, Way]
    ) -> tuple[tuple[Request, ...], dict[Node, Way]]:
        """The chunks a loop computes, and the small values an earlier loop has to keep for it."""
        members: dict[Request, None] = {}
        stored: dict[Node, Way] = {}
        pending = [
            request
            for node, way in sinks.items()
            for request in zip(node.operands, way.operands, strict=True)
        ]
        while pending:
            node, cut = pending.pop()
            if cut is None or (node, cut) not in self._computed or (node, cut) in members:
                continue
            needed = operand_cuts(node, cut)
            assert needed is not None
            if node in self._program.between and self.levels[node, cut] < level:
                if node not in self.sinks:
                    stored[node] = Way(steps_of(node, cut), needed, cut)
                continue
            members[node, cut] = None
            pending.extend(zip(node.operands, needed, strict=True))
        position = self._program.position
        return tuple(sorted(members, key=lambda request: position[request[0]])), stored

    @property
    def whole(self) -> set[Node]:
        """The values that exist whole at some time."""
        return {*self._whole, *self.sinks}
