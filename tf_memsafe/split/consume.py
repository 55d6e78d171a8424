"""Lets a loop that makes the entries of a stack, or reads them, do what is done with the stack."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.op import Contraction, Cut
from tf_memsafe.hlo.order import topological, users
from tf_memsafe.hlo.rebuild import rebuild
from tf_memsafe.split.chunk import contracted_chunk, with_operands
from tf_memsafe.split.counted import Affine, counted_loops
from tf_memsafe.split.cuts import Request, Span, carried, span_of, steps_of, ways
from tf_memsafe.split.entries import FIRST_AXIS, Entries, Work, computed_alone, work_for
from tf_memsafe.split.stacks import LoopBody
from tf_memsafe.split.steps import repeat


def consume_where_made(graph: Graph) -> Graph | None:
    """The graph with one loop that does what was done with a stack so far, if there is one."""
    nodes = topological(graph.outputs)
    bodies = {node: LoopBody(loop) for node, loop in counted_loops(nodes).items()}
    used_by = users(nodes)
    for node in nodes:
        for host in _hosts(node, used_by[node], bodies):
            use = _Use(graph, nodes, bodies, node, host)
            if use.helps:
                return use.write()
    return None


@dataclass(frozen=True)
class _Host:
    """A loop that has an entry of a stack in each of its steps, and the number of that entry."""

    body: LoopBody
    entry: Node
    number: Node
    index: Affine


def _hosts(
    stack: Node, its_users: Sequence[Node], bodies: Mapping[Node, LoopBody]
) -> Iterator[_Host]:
    """The loops that go through all entries of a stack: the one that makes it comes first."""
    writer = bodies.get(stack.operands[0]) if stack.name == "get_tuple_element" else None
    written = writer.written(stack["index"]) if writer else None
    if writer is None or written is None:
        return
    _, update = writer.state(stack["index"])
    found = [_Host(writer, written.entry, update.operands[2], written.index)]
    for body in (bodies[user] for user in its_users if user in bodies):
        reads = None if stack in body.loop.node.operands else body.reads(stack)
        found += [_Host(body, r, r.operands[1], index) for r, index in (reads or {}).items()]
    for host in found:
        if abs(host.index.step) == 1 and host.body.loop.trips == stack.shape[0]:
            yield host


class _Use:
    """What is made of a stack, as far as one loop can do it entry by entry.

    made: what is made of each entry. sinks: what all entries are combined to. kept: what has to be
    stacked up of what is made.
    """

    def __init__(
        self,
        graph: Graph,
        nodes: Sequence[Node],
        bodies: Mapping[Node, LoopBody],
        stack: Node,
        host: _Host,
    ) -> None:
        self._graph = graph
        self._bodies = bodies
        self._stack = stack
        self._host = host
        self._steps = range(stack.shape[0])
        self._made: dict[Node, Cut] = {stack: FIRST_AXIS}
        self._sinks: dict[Node, _Sink] = {}
        self._late = {host.body.loop.node}
        self._kept = {output: None for output in graph.outputs if output is stack}
        for node in nodes:
            if node is not stack:
                self._follow(node)
        self._kept |= {output: None for output in graph.outputs if output in self._made}

    def _follow(self, node: Node) -> None:
        """Finds whether a node is made of entries, combined from them, or neither."""
        made = [d for d in node.dependencies if d in self._made]
        if node in self._late or any(d in self._late for d in node.dependencies):
            self._stays_outside(node, made)
        elif any(steps_of(each, self._made[each]) == 1 for each in made):
            self._stays_outside(node, made)  # what is made of one entry is made once, of that
        elif made and (cut := self._cut(node, made)):
            self._made[node] = cut
        elif made and (sink := self._sink(node, made)):
            self._sinks[node] = sink
            self._late.add(node)
        elif made:
            self._stays_outside(node, made)

    def _stays_outside(self, node: Node, made: Sequence[Node]) -> None:
        """What it needs has to be stacked up, unless it is a loop that reads entries."""
        self._late.add(node)
        body = self._bodies.get(node)
        for needed in made:
            read = body is not None and needed not in node.operands and body.reads(needed)
            if not read or needed is not self._stack:
                self._kept[needed] = None

    def _cut(self, node: Node, made: Sequence[Node]) -> Cut | None:
        cut = carried(node, made[0], self._made[made[0]])
        needed = computed_alone(node, cut) if cut else None
        return cut if needed and self._agrees(node, needed) else None

    def _sink(self, node: Node, made: Sequence[Node]) -> _Sink | None:
        for way in ways(node, made[0], self._made[made[0]]):
            if way.contraction is not None and self._agrees(node, way.operands):
                in_order = self._host.index.step > 0 or not way.contraction.ordered
                sink = _Sink(node, way.span, way.operands, way.contraction)
                return sink if in_order and self._is_covered(sink) else None
        return None

    def _agrees(self, node: Node, needed: Sequence[Cut | None]) -> bool:
        pairs = zip(node.operands, needed, strict=True)
        return all(self._made[o] == cut for o, cut in pairs if o in self._made)

    def _is_covered(self, part: _Part) -> bool:
        """Whether the loop goes through all steps, but for a few at the ends."""
        outside = [*_before(part, self._steps), *_after(part, self._steps)]
        return len(outside) <= MOST_OUTSIDE

    @property
    def helps(self) -> bool:
        """Whether less is stacked up if the loop does this."""
        if self._stack in self._kept or any(len(node.results) > 1 for node in self._kept):
            return False
        possible = all(self._is_covered(part) for part in self._parts())
        less = sum(node.type.bytes for node in self._kept) < self._stack.type.bytes
        return possible and less and bool(self._sinks or self._kept)

    # --- the loop that does it ---

    def write(self) -> Graph:
        """The graph whose loop does all that it can."""
        parts = self._parts()
        work = work_for((request for part in parts for request in part.wanted), self._made)
        host, ours = self._host.body.loop, len(self._host.body.loop.node.operands) - 1
        inside = self._entries(self._host.number, self._host.entry, work)
        begun = [self._outside(part, part.initial(inside), work, _before) for part in parts]

        def body(step: Node, state: tuple[Node, ...]) -> list[Node]:
            known = {capture: capture for capture in host.body.captures}
            known |= zip(host.body.parameters, (step, *state[:ours]), strict=True)
            found, pending = [*host.body.results[1:]], iter(state[ours:])
            for part, values in zip(parts, begun, strict=True):
                before = [next(pending) for _ in values]
                found += part.combined(inside, before, part.is_within(self._steps))
            return rebuild(found, known)

        flat = [value for values in begun for value in values]
        outer = [*host.node.operands, *host.body.captures, *work.around, *flat]
        initial = [*host.node.operands[1:], *flat]
        final = iter(repeat(host.trips, initial, body, outer, host.node.source))
        new = {result: next(final) for result in build.results(host.node)[1:]}
        for part, values in zip(parts, begun, strict=True):
            ended = self._outside(part, [next(final) for _ in values], work, _after)
            pairs = zip(build.results(part.node), ended, strict=True)
            new |= {result: build.convert(value, result.dtype) for result, value in pairs}
        return Graph(self._graph.parameters, tuple(rebuild(self._graph.outputs, new)))

    def _parts(self) -> list[_Part]:
        kept = (_Kept(node, span_of(node, cut), cut) for node, cut in self._made.items())
        return [*self._sinks.values(), *(part for part in kept if part.node in self._kept)]

    def _entries(self, step: Node, entry: Node, work: Work) -> Entries:
        entries = Entries(step, {(self._stack, FIRST_AXIS): entry})
        entries.compute(work.members)
        return entries

    def _outside(
        self,
        part: _Part,
        values: Sequence[Node],
        work: Work,
        steps: Callable[[_Part, range], range],
    ) -> Sequence[Node]:
        """The values with the entries of steps put in that the loop does not go through."""
        nothing = build.zeros(self._stack.tensor.with_axis(0, 1))
        for step in steps(part, self._steps):
            entries = self._entries(build.index(step), nothing, work)
            values = part.combined(entries, values, masked=False)
        return values


MOST_OUTSIDE = 4
"""How many steps before or after those of the loop are written out: a first state, say."""


def _before(part: _Part, steps: range) -> range:
    return range(part.span.first, min(part.span.stop, steps.start))


def _after(part: _Part, steps: range) -> range:
    return range(max(part.span.first, steps.stop), part.span.stop)


@dataclass(frozen=True)
class _Part(ABC):
    """What a loop makes of all entries in the steps of a span."""

    node: Node
    span: Span

    def is_within(self, steps: range) -> bool:
        """Whether there are steps of the loop around the span."""
        return steps.start < self.span.first or self.span.stop < steps.stop

    @property
    @abstractmethod
    def wanted(self) -> list[Request]:
        """The parts of values that it is made of."""

    @abstractmethod
    def initial(self, entries: Entries) -> Sequence[Node]:
        """What there is before the first entry."""

    @abstractmethod
    def combined(self, entries: Entries, values: Sequence[Node], masked: bool) -> Sequence[Node]:
        """What there is with one more entry; `masked`: if its step is in the span."""


@dataclass(frozen=True)
class _Sink(_Part):
    """Entries are combined."""

    operands: tuple[Cut | None, ...]
    contraction: Contraction

    @property
    def wanted(self) -> list[Request]:
        pairs = zip(self.node.operands, self.operands, strict=True)
        return [(operand, cut) for operand, cut in pairs if cut is not None]

    def initial(self, entries: Entries) -> Sequence[Node]:
        return self.contraction.initial(self._on(entries))

    def combined(self, entries: Entries, values: Sequence[Node], masked: bool) -> Sequence[Node]:
        node = self._on(entries)
        chunk = build.results(contracted_chunk(node, self.contraction))
        start = entries.start(self.wanted[0][1])
        combined = self.contraction.combine(node, values, chunk, start)
        if not masked:
            return combined
        return [entries.within(self.span, *pair) for pair in zip(combined, values, strict=True)]

    def _on(self, entries: Entries) -> Node:
        return with_operands(self.node, entries.operands(self.node, self.operands))


@dataclass(frozen=True)
class _Kept(_Part):
    """Entries are stacked up."""

    cut: Cut

    @property
    def wanted(self) -> list[Request]:
        return [(self.node, self.cut)]

    def initial(self, entries: Entries) -> Sequence[Node]:
        return (build.zeros(self.node.tensor),)

    def combined(self, entries: Entries, values: Sequence[Node], masked: bool) -> Sequence[Node]:
        (stack,) = values
        part = entries.part(self.node, self.cut)
        starts = entries.starts(self.node.tensor.rank, self.cut)
        if masked:
            part = entries.within(self.span, part, build.dynamic_slice(stack, starts, part.shape))
        return (build.dynamic_update_slice(stack, part, starts),)
