"""Which values exist whole, which are recomputed chunk by chunk, and by which loop (DESIGN 6.2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.op import Cut
from tf_memsafe.split.arrange import Arrangement, LoopPlan
from tf_memsafe.split.cuts import (
    Request,
    Span,
    Way,
    axis_sizes,
    operand_cuts,
    requests,
    span_of,
    ways,
)
from tf_memsafe.split.program import Program


class Demand:
    """Asks each output for its whole value, and follows what that takes.

    cuts: the axis chosen for each streamed value. blocked: the values that turn out to be needed
    whole, each with the user that is to blame (itself, if it cannot be cut this way). If there are
    any, there are no loops: the values have to be pinned, and asked for anew.
    """

    def __init__(self, program: Program, cuts: dict[Node, Cut]) -> None:
        self._program = program
        self._cuts = cuts
        self._chunks: dict[Node, dict[Cut, set[Span]]] = defaultdict(dict)
        self._whole: dict[Node, Node] = {output: output for output in program.graph.outputs}
        self._computed: dict[Request, set[Span]] = {}
        self.sinks: dict[Node, Way] = {}
        self.blocked: dict[Node, Node] = {}
        self.loops: list[LoopPlan] = []
        for node in reversed(program.nodes):
            self._follow_chunks(node)
            self._follow_whole(node)
        if not self.blocked:
            self._arrangement = Arrangement(program, self._computed, self.sinks, self._whole)
            self.blocked = self._arrangement.blocked
            self.loops = self._arrangement.loops

    def loops_keeping(self, kept: Collection[Node]) -> list[LoopPlan]:
        """The loops, if the first of them to compute these values stores them for later ones."""
        return self._arrangement.find_loops(kept) if self.loops else []

    def _follow_chunks(self, node: Node) -> None:
        for cut, spans in self._chunks.get(node, {}).items():
            needed = operand_cuts(node, cut)
            streamed = node in self._program.streamed
            if (
                needed is None
                or not (streamed or self._computed_in_chunks(node, cut, needed))
                or not _begins_with_the_axis(node, cut, spans)
            ):
                self._whole.setdefault(node, node)
                continue
            self._computed[node, cut] = spans
            self._ask(node, cut, needed, spans)

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
        if way is None:
            for dependency in node.dependencies:
                self._whole.setdefault(dependency, node)
        else:
            self.sinks[node] = way
            self._ask(node, way.cut, way.operands, {way.span})

    def _ask(
        self, user: Node, cut: Cut | None, needed: Sequence[Cut | None], spans: Iterable[Span]
    ) -> None:
        for span in spans:
            for operand, wanted, active in requests(user, cut, needed, span):
                if wanted is None:
                    self._whole.setdefault(operand, user)
                else:
                    self._chunks[operand].setdefault(wanted, set()).add(active)
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
                found.update(dict.fromkeys(ways(node, operand, cut)))
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

    @property
    def whole(self) -> set[Node]:
        """The values that exist whole at some time."""
        return {*self._whole, *self.sinks}


def _begins_with_the_axis(node: Node, cut: Cut, spans: Iterable[Span]) -> bool:
    """Whether chunks of a cumulative op are wanted from the end of the axis where it begins."""
    carry = node.op.carry(node, cut)
    if carry is None:
        return True
    first, stop = span_of(node, cut)
    return all(span.stop == stop if carry.backwards else span.first == first for span in spans)
