"""Writes loops that keep their state where they enter segments of steps, and run those again.

What a sweep stacks up (`sweeps`) follows from its state before the step, and of the state only what
the entries are made of. So the steps are divided into segments. Every sweep keeps its state where
it enters a segment; a later sweep that comes to the segment runs the earlier ones through it again,
from there, and keeps what they stack up for that segment alone. A segment can be divided in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.rebuild import rebuild
from tf_memsafe.split.branches import without_unused_results
from tf_memsafe.split.divisions import Parts
from tf_memsafe.split.steps import empty_stack, entry, put, repeat
from tf_memsafe.split.sweeps import Group, Sweep


def write_segments(graph: Graph, group: Group, parts: Parts) -> Graph:
    """The graph whose sweeps keep the states where they enter segments, and run those again."""
    return _Writer(graph, group, parts).write()


Values = tuple[Node, ...]
Kept = Mapping[int, Values]
"""For some of the sweeps, by number, stacks of what they keep of each part of a segment."""


@dataclass(frozen=True)
class _Segment:
    """Steps from `first` on, a scalar i32; `size` of them, one too if it is a node.

    level: how often the steps were divided to get it. outer: what its steps may use.
    """

    level: int
    first: Node
    size: int | Node
    outer: tuple[Node, ...]


class _Writer:
    def __init__(self, graph: Graph, group: Group, parts: Parts) -> None:
        self._graph = graph
        self._sweeps = group.sweeps
        self._sources = [group.sources(number) for number, _ in enumerate(group.sweeps)]
        self._sizes = (group.trips, *parts, 1)
        self._captured: list[dict[Node, Node]] = []

    def write(self) -> Graph:
        new: dict[Node, Node] = {}
        kept: dict[int, Values] = {}
        outer: tuple[Node, ...] = ()
        for number, sweep in enumerate(self._sweeps):
            captures = [c for c in sweep.loop.body.captures if c not in self._dropped()]
            captured = dict(zip(captures, rebuild(captures, new), strict=True))
            self._captured.append(captured)
            outer += tuple(captured.values())
            initial = rebuild([sweep.loop.node.operands[p] for p in sweep.carried], new)
            steps = _Segment(0, build.index(0), self._sizes[0], outer)
            final, kept[number] = self._run(number, steps, initial, kept, sweep.carried)
            results = build.results(sweep.loop.node)
            new |= {results[p]: value for p, value in zip(sweep.carried, final, strict=True)}
            outer += kept[number]
        whole = Graph(self._graph.parameters, tuple(rebuild(self._graph.outputs, new)))
        # What was needed of a branch in a step may be computed again now, where it is needed.
        return without_unused_results(whole)

    def _dropped(self) -> set[Node]:
        """The stacks of whole sweeps."""
        return {build.results(sweep.loop.node)[p] for sweep in self._sweeps for p in sweep.stacks}

    def _run(
        self,
        number: int,
        segment: _Segment,
        initial: Sequence[Node],
        kept: Kept,
        positions: Sequence[int],
        keeps: bool = True,
    ) -> tuple[Values, Values]:
        """What a sweep makes of the state at `positions` in a segment, and what it keeps of that.

        kept: what the earlier sweeps that it needs kept of the segment's parts.
        """
        sweep, sources = self._sweeps[number], self._sources[number]
        parts = _Division(segment, self._sizes[segment.level + 1])
        stacks = self._stacks(sweep, segment.level) if keeps else []
        outer = (*parts.outer, *(stack for source in sources for stack in kept[source]))

        def part(done: Node, values: Values) -> list[Node]:
            position = done if sweep.upwards else parts.from_the_end(done)
            before = {n: [entry(stack, position) for stack in kept[n]] for n in sources}
            state, filled = values[: len(positions)], values[len(positions) :]
            inner = parts.part(position, outer)
            if self._has_steps(segment.level):
                found = self._step(number, inner.first, state, before, positions, keeps)
            else:
                entering = [state[positions.index(p)] for p in sweep.needed if keeps]
                found = [*self._inside(number, inner, state, before, positions), *entering]
            pairs = zip(filled, found[len(positions) :], strict=True)
            return [*found[: len(positions)], *(put(s, value, position) for s, value in pairs)]

        source = sweep.loop.node.source
        final = repeat(parts.count, [*initial, *stacks], part, outer, source)
        return final[: len(positions)], final[len(positions) :]

    def _has_steps(self, level: int) -> bool:
        """Whether segments of this level are divided into nothing but steps."""
        return level + 2 == len(self._sizes)

    def _stacks(self, sweep: Sweep, level: int) -> list[Node]:
        """Empty stacks for what is kept of a segment's parts: of steps, entries; else, states."""
        length = ceil(self._sizes[level] / self._sizes[level + 1])
        if self._has_steps(level):
            types = [e.tensor.with_shape(e.shape[1:]) for e in sweep.stacks.values()]
        else:
            types = [sweep.loop.body.parameters[p].tensor for p in sweep.needed]
        return [empty_stack(type_, length) for type_ in types]

    def _inside(
        self,
        number: int,
        segment: _Segment,
        state: Sequence[Node],
        before: Mapping[int, Sequence[Node]],
        positions: Sequence[int],
    ) -> Values:
        """The state after a part that is divided again, once the earlier sweeps ran through it."""
        kept: dict[int, Values] = {}
        for source in self._sources[number]:
            sweep = self._sweeps[source]
            parameters = [sweep.loop.body.parameters[p] for p in sweep.needed]
            pairs = zip(before[source], parameters, strict=True)
            start = [build.reshape(value, parameter.shape) for value, parameter in pairs]
            _, kept[source] = self._run(source, segment, start, kept, sweep.needed)
        return self._run(number, segment, state, kept, positions, keeps=False)[0]

    def _step(
        self,
        number: int,
        time: Node,
        state: Sequence[Node],
        before: Mapping[int, Sequence[Node]],
        positions: Sequence[int],
        keeps: bool,
    ) -> list[Node]:
        """The state after a step, and what the step puts into the stacks."""
        sweep = self._sweeps[number]
        body, last = sweep.loop.body, build.index(sweep.loop.trips - 1)
        known = dict(self._captured[number])
        known[body.parameters[0]] = time if sweep.upwards else build.subtract(last, time)
        known |= {body.parameters[p]: value for p, value in zip(positions, state, strict=True)}
        for read, (writer, position) in sweep.reads.items():
            known[read] = before[writer][list(self._sweeps[writer].stacks).index(position)]
        entries = sweep.stacks.values() if keeps else ()
        return rebuild([*(body.results[p] for p in positions), *entries], known)


class _Division:
    """A segment divided into parts of so many steps; the last part may have fewer."""

    def __init__(self, segment: _Segment, steps: int) -> None:
        self._segment = segment
        self._steps = steps
        self.count = _divided(segment.size, steps)
        sizes = (size for size in (segment.size, self.count) if isinstance(size, Node))
        self.outer = (*segment.outer, segment.first, *sizes)

    def from_the_end(self, done: Node) -> Node:
        return build.subtract(_index(self.count), build.add(done, build.index(1)))

    def part(self, position: Node, outer: Values) -> _Segment:
        start = build.multiply(position, build.index(self._steps)) if self._steps > 1 else position
        first, size = build.add(self._segment.first, start), self._size(start)
        sizes = (size,) if isinstance(size, Node) else ()
        return _Segment(self._segment.level + 1, first, size, (*outer, first, *sizes))

    def _size(self, start: Node) -> int | Node:
        whole, steps = self._segment.size, self._steps
        if steps == 1 or (isinstance(whole, int) and whole % steps == 0):
            return steps
        return build.emit("minimum", (build.subtract(_index(whole), start), build.index(steps)))


def _divided(size: int | Node, steps: int) -> int | Node:
    """How many parts of so many steps there are."""
    if isinstance(size, int) or steps == 1:
        return ceil(size / steps) if isinstance(size, int) else size
    return build.emit("divide", (build.add(size, build.index(steps - 1)), build.index(steps)))


def _index(size: int | Node) -> Node:
    return build.index(size) if isinstance(size, int) else size
