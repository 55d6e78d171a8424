"""Keeps less of each step of a loop for its gradient, and computes it again instead.

The gradient of a loop under XLA is a second loop that goes back through the steps, and reads what
the first stacked up in each. Everything in those stacks follows from the loop's state before the
step, and of the state only what the stacked values are made of. So there are three ways, each with
more flops and less memory than the last:

- keep that state instead of the stacks: each step back computes its own entries again;
- keep that state of each k-th step; a segment of k steps is run again before going back through it;
- both: the segment's stacks hold states, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, sqrt

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node, Region
from tf_memsafe.hlo.rebuild import rebuild
from tf_memsafe.split.counted import Affine, CountedLoop
from tf_memsafe.split.liveness import estimate_peak
from tf_memsafe.split.stacks import LoopPair, find_pairs
from tf_memsafe.split.steps import empty_stack, entry, put, region, repeat


def checkpoint_loops(graph: Graph, room: int, fusing: bool = True) -> Graph:
    """The graph with as little of its loops' steps computed again as it takes to fit `room` bytes.

    room: what the estimate of everything (arguments and results too) has to be within. If nothing
    does it, the smallest; the graph itself where no loop's stacks are certain to be computable.
    """
    while (peak := estimate_peak(graph, fusing)) > room:
        smaller = next(
            (found for pair in find_pairs(graph) if (found := _choose(graph, pair, room, fusing))),
            None,
        )
        if smaller is None or estimate_peak(smaller, fusing) >= peak:
            return graph
        graph = smaller
    return graph


def _choose(graph: Graph, pair: LoopPair, room: int, fusing: bool) -> Graph | None:
    """The first way for this pair that fits, else the one that takes least; None if none helps."""
    best, least = None, estimate_peak(graph, fusing)
    for candidate in _ways(graph, pair):
        peak = estimate_peak(candidate, fusing)
        if peak < least:
            best, least = candidate, peak
        if peak <= room:
            break
    return best


def _ways(graph: Graph, pair: LoopPair) -> Iterator[Graph]:
    """The graph with less kept of this pair's steps, the fewest flops first."""
    yield keep_states(graph, pair)
    if pair.state_bytes:
        yield checkpoint(graph, pair, best_segment(pair, pair.entry_bytes))
        if pair.state_bytes < pair.entry_bytes:
            segment = best_segment(pair, pair.state_bytes)
            yield checkpoint(graph, pair, segment, stack_states=True)


def best_segment(pair: LoopPair, stacked: int) -> int:
    """The steps for which checkpoints and a segment's stacks, of these bytes a step, take least."""
    return min(pair.trips, max(2, round(sqrt(pair.trips * pair.state_bytes / stacked))))


def keep_states(graph: Graph, pair: LoopPair) -> Graph:
    """The graph that keeps the state of each step instead of what is computed from it."""
    return _Rewriting(graph, pair, 1, False).write()


def checkpoint(graph: Graph, pair: LoopPair, segment: int, stack_states: bool = False) -> Graph:
    """The graph that keeps the state of each `segment`-th step, and runs the segments again.

    stack_states: keep the states of the one segment, too, in place of what is computed from them.
    """
    return _Rewriting(graph, pair, segment, stack_states).write()


class _Rewriting:
    def __init__(self, graph: Graph, pair: LoopPair, segment: int, stack_states: bool) -> None:
        self._graph = graph
        self._pair = pair
        self._segment = segment
        self._stack_states = stack_states
        self._count = ceil(pair.trips / segment)
        self._read = {stack.read for stack in pair.stacks}
        body = pair.forward.body
        self._types = [body.parameters[position].tensor for position in pair.state]
        self._entries = [stack.entry for stack in pair.stacks]
        self._outer = [*pair.forward.node.operands, *body.captures]

    def write(self) -> Graph:
        new, self._states = self._write_forward()
        backward = self._pair.backward
        kept = [p for p, _ in enumerate(backward.node.operands) if p not in self._read]
        captures = backward.body.captures
        initial = rebuild([backward.node.operands[p] for p in kept], new)
        captured = dict(zip(captures, rebuild(captures, new), strict=True))
        self._outer += [*self._states, *captured.values()]
        whole = self._write_backward(kept, initial, captured)
        results = build.results(backward.node)
        new |= {results[p]: value for p, value in zip(kept, whole, strict=True)}
        return Graph(self._graph.parameters, tuple(rebuild(self._graph.outputs, new)))

    # --- the loop that used to fill the stacks ---

    def _write_forward(self) -> tuple[dict[Node, Node], tuple[Node, ...]]:
        """The new nodes for its results, and the kept states."""
        loop = self._pair.forward
        written = {stack.written for stack in self._pair.stacks}
        kept = [p for p, _ in enumerate(loop.node.operands) if p not in written]
        # Between checkpoints the state goes into an entry that nobody reads.
        length = self._count + (self._segment > 1)
        stacks = [empty_stack(type_, length) for type_ in self._types]
        initial = [*(loop.node.operands[p] for p in kept), *stacks]
        regions = self._condition(kept, initial), self._forward_body(kept, initial)
        final = build.while_loop(initial, *regions, loop.node.source)
        results = build.results(loop.node)
        return {results[p]: final[i] for i, p in enumerate(kept)}, final[len(kept) :]

    def _condition(self, kept: Sequence[int], initial: Sequence[Node]) -> Region:
        condition = self._pair.forward.node.regions[0]
        parameters = build.region_parameters([node.tensor for node in initial])
        results = rebuild(condition.results, _given(condition, kept, parameters))
        return region(parameters, results, condition.captures)

    def _forward_body(self, kept: Sequence[int], initial: Sequence[Node]) -> Region:
        """The body, with the state before the step put away in place of the stacks' entries."""
        body = self._pair.forward.body
        parameters = build.region_parameters([node.tensor for node in initial])
        known = _given(body, kept, parameters)
        position = self._slot(_step(self._pair.forward, known))
        results = rebuild([body.results[p] for p in kept], known)
        for stack, p in zip(parameters[len(kept) :], self._pair.state, strict=True):
            results.append(put(stack, known[body.parameters[p]], position))
        return region(parameters, results, body.captures)

    def _slot(self, step: Node) -> Node:
        """Where the state before a step is kept."""
        if self._segment == 1:
            return step
        size = build.index(self._segment)
        first = build.compare(build.emit("remainder", (step, size)), build.index(0), "EQ")
        whole = build.emit("divide", (step, size))
        return build.emit("select", (first, whole, build.index(self._count)))

    # --- the loop that used to read the stacks ---

    def _write_backward(
        self, kept: Sequence[int], initial: Sequence[Node], captured: Mapping[Node, Node]
    ) -> tuple[Node, ...]:
        source = self._pair.backward.node.source

        def back(entries: Sequence[Node], state: Sequence[Node]) -> list[Node]:
            """One step of the backward body, with these entries of the stacks."""
            known = {**captured, **_given(self._pair.backward.body, kept, state)}
            for stack, value in zip(self._pair.stacks, entries, strict=True):
                known |= dict.fromkeys(stack.reads, value)
            body = self._pair.backward.body
            return rebuild([body.results[p] for p in kept], known)

        def segment(done: Node, state: tuple[Node, ...]) -> Sequence[Node]:
            number = build.subtract(build.index(self._count - 1), done)
            states = self._at(self._states, number)
            if self._segment == 1:
                return back(self._again(number, states, self._entries), state)
            first = build.multiply(number, build.index(self._segment))
            left = build.subtract(build.index(self._pair.trips), first)
            size = build.emit("minimum", (left, build.index(self._segment)))
            stacks = self._fill(first, size, states)
            last = build.subtract(size, build.index(1))

            def step(index: Node, inner: tuple[Node, ...]) -> list[Node]:
                return back(self._popped(stacks, first, build.subtract(last, index)), inner)

            return repeat(size, state, step, [*self._outer, *stacks, first, last], source)

        return repeat(build.index(self._count), initial, segment, self._outer, source)

    def _fill(self, first: Node, size: Node, states: Sequence[Node]) -> tuple[Node, ...]:
        """Runs a segment forward from its checkpoint; its stacks."""
        body, stateful = self._pair.forward.body, len(states)
        following = [body.results[p] for p in self._pair.state]
        stacked = [] if self._stack_states else self._entries

        def step(index: Node, state: tuple[Node, ...]) -> list[Node]:
            before, stacks = state[:stateful], state[stateful:]
            found = self._again(build.add(first, index), before, [*following, *stacked])
            values = before if self._stack_states else found[stateful:]
            put_away = [put(s, value, index) for s, value in zip(stacks, values, strict=True)]
            return [*found[:stateful], *put_away]

        types = [node.tensor.with_shape(node.shape[1:]) for node in stacked] or self._types
        stacks = [empty_stack(type_, self._segment) for type_ in types]
        source = self._pair.forward.node.source
        filled = repeat(size, [*states, *stacks], step, [*self._outer, first], source)
        return filled[stateful:]

    def _popped(self, stacks: Sequence[Node], first: Node, position: Node) -> list[Node]:
        """The entries of a step of the segment that starts at `first`."""
        if not self._stack_states:
            return [entry(stack, position) for stack in stacks]
        step = build.add(first, position)
        return self._again(step, self._at(stacks, position), self._entries)

    def _at(self, stacks: Sequence[Node], position: Node) -> list[Node]:
        """The state in an entry of stacks of states."""
        return [
            build.reshape(entry(stack, position), type_.shape)
            for stack, type_ in zip(stacks, self._types, strict=True)
        ]

    def _again(self, step: Node, states: Sequence[Node], roots: Sequence[Node]) -> list[Node]:
        """What the forward body makes of the state before a step."""
        loop = self._pair.forward
        known = {captured: captured for captured in loop.body.captures}
        for position, parameter in enumerate(loop.body.parameters):
            if position in loop.counters:
                known[parameter] = _number(loop.counters[position], step, parameter.dtype)
            elif position in loop.invariant:
                known[parameter] = loop.node.operands[position]
        known |= {loop.body.parameters[p]: s for p, s in zip(self._pair.state, states, strict=True)}
        return rebuild(roots, known)


def _given(inside: Region, kept: Sequence[int], values: Sequence[Node]) -> dict[Node, Node]:
    """What stands for a region's captures, and for those of its parameters that are kept."""
    known = {captured: captured for captured in inside.captures}
    return known | {inside.parameters[p]: values[i] for i, p in enumerate(kept)}


def _step(loop: CountedLoop, known: Mapping[Node, Node]) -> Node:
    """The number of steps done, from the loop's own counter."""
    counter = known[loop.body.parameters[loop.counter]]
    start = loop.counters[loop.counter].start
    done = build.subtract(counter, build.constant(start, counter.tensor)) if start else counter
    return build.convert(done, "i32")


def _number(value: Affine, step: Node, dtype: str) -> Node:
    """A known number of a step, as a node."""
    counted = build.convert(step, dtype)
    start, growth = (build.constant(number, counted.tensor) for number in value)
    if not value.step:
        return start
    grown = counted if value.step == 1 else build.multiply(growth, counted)
    return build.add(start, grown) if value.start else grown
