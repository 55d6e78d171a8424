"""Writes a plan's loops into a new graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node, Region
from tf_memsafe.hlo.op import Chunk
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.rebuild import remake
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.split.arrange import LoopPlan
from tf_memsafe.split.cuts import Request, Span
from tf_memsafe.split.step import Step, carried_requests

COUNTER = TensorType("i32")


def write_loops(graph: Graph, loops: Sequence[tuple[LoopPlan, int]]) -> Graph:
    """The graph with each loop in place of what it computes.

    loops: each loop with the number of steps that one chunk covers, earlier levels first.
    """
    return _Writer(graph).write(loops)


class _State(NamedTuple):
    """What a loop has computed so far: of each sink, and what cumulative ops hand on."""

    accumulated: Sequence[tuple[Node, ...]]
    carried: Mapping[Request, Node]


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

    def _loop(self, loop: LoopPlan, chunk: int) -> Sequence[tuple[Node, ...]]:
        begun = {each: self.whole(carry.initial) for each, carry in carried_requests(loop)}
        if chunk >= loop.steps and not loop.boundaries:
            whole = Chunk(build.index(loop.span.first), loop.steps)
            return self._step(loop, whole, loop.span.first, begun).sinks()
        state: _State | None = None
        for segment in loop.segments:
            state = self._segment(loop, segment, chunk, state or _State((), begun))
        assert state is not None
        return [
            tuple(
                build.convert(value, result.dtype)
                for value, result in zip(values, sink.results, strict=True)
            )
            for sink, values in zip(loop.sinks, state.accumulated, strict=True)
        ]

    def _segment(self, loop: LoopPlan, segment: Span, chunk: int, state: _State) -> _State:
        """The state after the steps of a segment: as many whole chunks as there are, and a rest."""
        size = min(chunk, segment.steps)
        trips, rest = divmod(segment.steps, size)
        if trips > 1:
            done, state = self._while(loop, segment, size, trips, state)
        else:
            first = _first(loop, segment, size)
            done, state = None, self._straight(loop, build.index(first), first, size, state)
        if rest:
            first = segment.first if loop.backwards else segment.stop - rest
            begin = _first(loop, segment, rest)
            # Found from how far the loop came, so that XLA does not compute it before the loop.
            offset = _moved(loop, begin, done, size) if done else build.index(first)
            state = self._straight(loop, offset, first, rest, state)
        return state

    def _step(
        self, loop: LoopPlan, chunk: Chunk, first: int, carried: Mapping[Request, Node]
    ) -> Step:
        return Step(self.whole, loop, chunk, first, carried)

    def _straight(
        self, loop: LoopPlan, offset: Node, first: int, size: int, state: _State
    ) -> _State:
        """The state after one more chunk, from step `first` on, which is what `offset` is."""
        step = self._step(loop, Chunk(offset, size), first, state.carried)
        return _State(step.combined(state.accumulated or step.initial()), step.carried)

    def _while(
        self, loop: LoopPlan, segment: Span, size: int, trips: int, state: _State
    ) -> tuple[Node, _State]:
        """How many chunks a loop over `trips` of them has done in the end, and the state then."""
        types = [COUNTER, *(value.tensor for value in state.carried.values())]
        counter, *handed = build.region_parameters(types)
        first = _first(loop, segment, size)
        chunk = Chunk(_moved(loop, first, counter, size), size)
        carried = dict(zip(state.carried, handed, strict=True))
        body = self._step(loop, chunk, first, carried)
        initial = state.accumulated or body.initial()
        types += [value.tensor for values in initial for value in values]
        # What was needed to build the chunk is there before the accumulators' types are known.
        parameters = (counter, *handed, *build.region_parameters(types)[1 + len(handed) :])
        accumulated = body.combined(_regroup(parameters[1 + len(handed) :], initial))
        results = (
            build.add(counter, build.index(1)),
            *(body.carried[request] for request in state.carried),
            *_flat(accumulated),
        )
        condition = build.region_parameters(types)
        keep_going = build.compare(condition[0], build.index(trips), "LT")
        done, *final = build.while_loop(
            (build.index(0), *state.carried.values(), *_flat(initial)),
            Region(condition, (keep_going,)),
            Region(parameters, results, tuple(body.captures)),
        )
        after = dict(zip(state.carried, final, strict=False))
        return done, _State(_regroup(final[len(handed) :], initial), after)


def _first(loop: LoopPlan, segment: Span, size: int) -> int:
    """Where a chunk of so many steps begins that is at the end where the loop begins."""
    return segment.stop - size if loop.backwards else segment.first


def _moved(loop: LoopPlan, first: int, chunks: Node, size: int) -> Node:
    """The step so many chunks after the first, in the direction in which the loop takes them."""
    moved = build.multiply(chunks, build.index(size))
    if loop.backwards:
        return build.subtract(build.index(first), moved)
    return build.add(build.index(first), moved) if first else moved


def _flat(groups: Sequence[tuple[Node, ...]]) -> list[Node]:
    return [node for group in groups for node in group]


def _regroup(nodes: Sequence[Node], like: Sequence[tuple[Node, ...]]) -> list[tuple[Node, ...]]:
    pending: Iterator[Node] = iter(nodes)
    return [tuple(next(pending) for _ in group) for group in like]
