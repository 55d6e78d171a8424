"""Writes a plan's loops into a new graph."""

from __future__ import annotations

from collections.abc import Sequence

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node, Region
from tf_memsafe.hlo.op import Chunk, Cut
from tf_memsafe.hlo.ops.structure import is_splat
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.rebuild import remake
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.split.chunk import chunk_node, contracted_chunk, with_operands
from tf_memsafe.split.cuts import Way, axis_sizes, operand_cuts
from tf_memsafe.split.demand import LoopPlan, Request

COUNTER = TensorType("i32")


def write_loops(graph: Graph, loops: Sequence[tuple[LoopPlan, int]]) -> Graph:
    """The graph with each loop in place of what it computes.

    loops: each loop with the number of steps that one chunk covers, earlier levels first.
    """
    return _Writer(graph).write(loops)


class _Writer:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._whole: dict[Node, Node] = {parameter: parameter for parameter in graph.parameters}

    def write(self, loops: Sequence[tuple[LoopPlan, int]]) -> Graph:
        for loop, chunk in loops:
            for sink, values in zip(loop.sinks, self._loop(loop, chunk), strict=True):
                self._keep(sink, values)
        outputs = tuple(self.whole(output) for output in self._graph.outputs)
        return Graph(self._graph.parameters, outputs)

    def _keep(self, sink: Node, values: Sequence[Node]) -> None:
        self._whole.update(zip(build.results(sink), values, strict=True))

    def whole(self, node: Node) -> Node:
        """The new node for a value that exists whole."""
        if node in self._whole:
            return self._whole[node]
        for needed in topological((node,), self._whole):
            self._whole[needed] = remake(needed, self._whole)
        return self._whole[node]

    def _loop(self, loop: LoopPlan, chunk: int) -> list[tuple[Node, ...]]:
        if chunk >= loop.steps:
            return _Chunk(self, loop, build.index(0), loop.steps).sinks()
        trips, rest = divmod(loop.steps, chunk)
        state = self._while(loop, chunk, trips)
        if rest:
            last = _Chunk(self, loop, build.index(trips * chunk), rest)
            state = last.combined(state)
        return [
            tuple(
                build.convert(value, result.dtype)
                for value, result in zip(values, sink.results, strict=True)
            )
            for sink, values in zip(loop.sinks, state, strict=True)
        ]

    def _while(self, loop: LoopPlan, chunk: int, trips: int) -> list[tuple[Node, ...]]:
        (counter,) = build.region_parameters((COUNTER,))
        offset = build.multiply(counter, build.index(chunk))
        body = _Chunk(self, loop, offset, chunk)
        initial = body.initial()
        types = [COUNTER, *(value.tensor for values in initial for value in values)]
        parameters = (counter, *build.region_parameters(types)[1:])
        # The counter was needed to build the chunk before the accumulators' types were known.
        accumulated = _regroup(parameters[1:], initial)
        results = [build.add(counter, build.index(1)), *_flat(body.combined(accumulated))]
        condition = build.region_parameters(types)
        keep_going = build.compare(condition[0], build.index(trips), "LT")
        final = build.while_loop(
            (build.index(0), *_flat(initial)),
            Region(condition, (keep_going,)),
            Region(parameters, tuple(results), tuple(body.captures)),
        )
        return _regroup(final[1:], initial)


class _Chunk:
    """One step of a loop: the chunks of its members, and what its sinks make of them."""

    def __init__(self, writer: _Writer, loop: LoopPlan, offset: Node, size: int) -> None:
        self._writer = writer
        self._loop = loop
        self._chunk = Chunk(offset, size)
        self._values: dict[Request, Node] = {}
        self.captures: dict[Node, None] = {}
        for node, cut in loop.members:
            needed = operand_cuts(node, cut)
            assert needed is not None
            operands = self._operands(node, needed)
            self._values[node, cut] = chunk_node(node, cut, operands, self._chunk)
        self._on_chunk: dict[Node, Node] = {}
        self._results = {sink: self._sink(sink, way) for sink, way in loop.sinks.items()}

    def _sink(self, sink: Node, way: Way) -> Node:
        operands = self._operands(sink, way.operands)
        if way.contraction is not None:
            self._on_chunk[sink] = with_operands(sink, operands)
            return contracted_chunk(self._on_chunk[sink], way.contraction)
        assert way.cut is not None
        known = self._values.get((sink, way.cut))
        return known or chunk_node(sink, way.cut, operands, self._chunk)

    def _operands(self, node: Node, needed: Sequence[Cut | None]) -> list[Node]:
        return [
            self._captured(operand) if cut is None else self._value(operand, cut)
            for operand, cut in zip(node.operands, needed, strict=True)
        ]

    def _captured(self, node: Node) -> Node:
        whole = self._writer.whole(node)
        if not is_splat(whole):  # a repeated value is written inside, where it costs nothing
            self.captures[whole] = None
        return whole

    def _value(self, node: Node, cut: Cut) -> Node:
        """The chunk of a value: computed in this loop, or sliced from where it exists whole."""
        if (node, cut) not in self._values:
            whole = self._captured(node)
            starts = self._starts(len(axis_sizes(node)), cut)
            sizes = whole.tensor.with_axis(cut.axis, self._chunk.size * cut.unit).shape
            self._values[node, cut] = build.dynamic_slice(whole, starts, sizes)
        return self._values[node, cut]

    def _starts(self, rank: int, cut: Cut) -> list[Node]:
        starts = [build.index(0)] * rank
        starts[cut.axis] = build.multiply(self._chunk.offset, build.index(cut.unit))
        return starts

    def sinks(self) -> list[tuple[Node, ...]]:
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
            (unit,) = {cut.unit for cut in way.operands if cut is not None}
            start = build.multiply(self._chunk.offset, build.index(unit))
            return tuple(way.contraction.combine(self._on_chunk[sink], values, chunk, start))
        assert way.cut is not None
        starts = self._starts(len(axis_sizes(sink)), way.cut)
        return tuple(
            build.dynamic_update_slice(whole, part, starts)
            for whole, part in zip(values, chunk, strict=True)
        )


def _flat(groups: Sequence[tuple[Node, ...]]) -> list[Node]:
    return [node for group in groups for node in group]


def _regroup(nodes: Sequence[Node], like: Sequence[tuple[Node, ...]]) -> list[tuple[Node, ...]]:
    pending = iter(nodes)
    return [tuple(next(pending) for _ in group) for group in like]
