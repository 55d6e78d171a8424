"""One step of a loop: the chunks of its members, and what its sinks make of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.op import Carry, Chunk, Cut
from tf_memsafe.hlo.ops.structure import is_splat
from tf_memsafe.split.arrange import LoopPlan
from tf_memsafe.split.chunk import chunk_node, contracted_chunk, with_operands
from tf_memsafe.split.cuts import Request, Span, Way, axis_sizes, requests, way_along


def carried_requests(loop: LoopPlan) -> Iterator[tuple[Request, Carry]]:
    """The chunks that a loop computes each from the one before."""
    sinks = {(node, way.cut): None for node, way in loop.sinks.items() if way.cut is not None}
    for node, cut in sinks | dict.fromkeys(loop.members):
        if (carry := node.op.carry(node, cut)) is not None:
            yield (node, cut), carry


class Step:
    """The nodes of one step.

    whole: makes the node for a value that exists whole. chunk: the steps of the loop's span that
    this step covers; `at` is one of them, to tell on which side of the loop's boundaries they are.
    carried: what cumulative ops are given; afterwards, what they hand on.
    captures: the values from outside that the step needs.
    """

    def __init__(
        self,
        whole: Callable[[Node], Node],
        loop: LoopPlan,
        chunk: Chunk,
        at: int,
        carried: Mapping[Request, Node],
    ) -> None:
        self._make_whole = whole
        self._loop = loop
        self._chunk = chunk
        self._at = Span(at, at + 1)
        self._values: dict[Request, Node] = {}
        self.carried = dict(carried)
        self.captures: dict[Node, None] = {}
        active = self._active()
        for node, cut in loop.members:
            if (node, cut) in active:
                self._values[node, cut] = self._compute(node, cut)
        self._on_chunk: dict[Node, Node] = {}
        self._results = {sink: self._sink(sink, way) for sink, way in loop.sinks.items()}

    def _active(self) -> set[Request]:
        """The members that are needed on this side of the loop's boundaries."""
        members = set(self._loop.members)
        if not self._loop.boundaries:
            return members
        pending = [r for sink, way in self._loop.sinks.items() for r in self._asked(sink, way)]
        found: set[Request] = set()
        while pending:
            node, cut = pending.pop()
            if cut is not None and (node, cut) in members and (node, cut) not in found:
                found.add((node, cut))
                pending += self._asked(node, way_along(node, cut))
        return found

    def _asked(self, node: Node, way: Way) -> list[tuple[Node, Cut | None]]:
        return [r[:2] for r in requests(node, way.cut, way.operands, self._at)]

    def _compute(self, node: Node, cut: Cut) -> Node:
        """A chunk of a node, from chunks of its operands."""
        way = way_along(node, cut)
        operands = [self._operand(*request) for request in self._asked(node, way)]
        carry = node.op.carry(node, cut)
        if carry is not None:
            value, self.carried[node, cut] = carry.chunk(operands, self.carried[node, cut])
            return value
        if not node.op.pieces(node, cut):
            return chunk_node(node, cut, operands, self._chunk)
        (operand,) = operands
        shape = node.tensor.with_axis(cut.axis, self._chunk.size * cut.unit).shape
        return operand if operand.shape == shape else build.broadcast(operand, shape)

    def _operand(self, node: Node, cut: Cut | None) -> Node:
        return self._captured(node) if cut is None else self._value(node, cut)

    def _captured(self, node: Node) -> Node:
        whole = self._make_whole(node)
        if not is_splat(whole):  # a repeated value is written inside, where it costs nothing
            self.captures[whole] = None
        return whole

    def _value(self, node: Node, cut: Cut) -> Node:
        """The chunk of a value: computed in this loop, or sliced from where it exists whole."""
        if (node, cut) not in self._values:
            whole = self._captured(node)
            sizes = whole.tensor.with_axis(cut.axis, self._chunk.size * cut.unit).shape
            starts = self._starts(len(axis_sizes(node)), cut)
            is_all = sizes == whole.shape
            self._values[node, cut] = whole if is_all else build.dynamic_slice(whole, starts, sizes)
        return self._values[node, cut]

    def _starts(self, rank: int, cut: Cut) -> list[Node]:
        starts = [build.index(0)] * rank
        starts[cut.axis] = build.chunk_start(self._chunk, cut)
        return starts

    # --- what becomes of the chunks ---

    def _sink(self, sink: Node, way: Way) -> Node:
        if way.contraction is not None:
            operands = [self._operand(*request) for request in self._asked(sink, way)]
            self._on_chunk[sink] = with_operands(sink, operands)
            return contracted_chunk(self._on_chunk[sink], way.contraction)
        assert way.cut is not None
        return self._values.get((sink, way.cut)) or self._compute(sink, way.cut)

    def sinks(self) -> list[tuple[Node, ...]]:
        """What this step makes of each sink: all of it, if the step covers the loop's span."""
        return [build.results(result) for result in self._results.values()]

    def initial(self) -> list[tuple[Node, ...]]:
        """The accumulators before the first chunk."""
        found = []
        for sink, way in self._loop.sinks.items():
            if way.contraction is not None:
                found.append(way.contraction.initial(self._on_chunk[sink]))
            else:
                found.append(tuple(build.zeros(result) for result in sink.results))
        return found

    def combined(self, accumulated: Sequence[tuple[Node, ...]]) -> list[tuple[Node, ...]]:
        """The accumulators with this chunk put in."""
        pairs = zip(self._loop.sinks.items(), accumulated, strict=True)
        return [self._combine(sink, way, values) for (sink, way), values in pairs]

    def _combine(self, sink: Node, way: Way, values: tuple[Node, ...]) -> tuple[Node, ...]:
        chunk = build.results(self._results[sink])
        if way.contraction is not None:
            cut = next(cut for cut in way.operands if cut is not None)
            start = build.chunk_start(self._chunk, cut)
            return tuple(way.contraction.combine(self._on_chunk[sink], values, chunk, start))
        assert way.cut is not None
        return tuple(
            build.dynamic_update_slice(whole, part, self._starts(whole.tensor.rank, way.cut))
            for whole, part in zip(values, chunk, strict=True)
        )
