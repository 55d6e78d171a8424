"""One form for the loops that run a known number of times: what is needed of them, and no more.

TensorFlow's loops count their steps several times over, and pass on what they do not change. Their
gradients read counters from stacks, clear each entry that they have read, and add a whole tensor
to another to change one entry. Whether a stack is needed can be told once all that is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.ops.structure import literal
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.rebuild import rebuild, remake
from tf_memsafe.split.counted import (
    Affine,
    CountedLoop,
    NumberStack,
    counted_loop,
    outer_number,
)
from tf_memsafe.split.stacks import LoopBody
from tf_memsafe.split.steps import repeat, repeated

STEP = Affine(0, 1)


def normal_loops(graph: Graph) -> Graph:
    """The same program, whose loops of a known number of steps have what they need and no more.

    Such a loop's state is the step, a scalar i32 that begins at 0, and values that change and are
    needed; what does not change it captures. The graph itself if its loops are like that already.
    """
    while (simpler := _Pass(graph).graph()) is not graph:
        graph = simpler
    return graph


class _Pass:
    """One pass from the first loop to the last; what it finds unused shows in the next."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes = topological(graph.outputs)
        self._new: dict[Node, Node] = {}
        self._known: dict[Node, Affine] = {}
        self._loops: dict[Node, CountedLoop] = {}
        self._stacks: dict[Node, NumberStack] = {}

    def graph(self) -> Graph:
        results = [node for node in self._nodes if node.name == "get_tuple_element"]
        live: dict[Node, list[int]] = {}
        for result in results:
            live.setdefault(result.operands[0], []).append(result["index"])
        changed = False
        for node in self._nodes:
            if node in self._new:
                continue
            made = self._new[node] = remake(node, self._new)
            if loop := counted_loop(made, self._known):
                changed |= self._loop(node, loop, live[node])
            elif (value := outer_number(made, self._known, self._loops)) is not None:
                self._known[made] = value
        outputs = tuple(self._new[output] for output in self._graph.outputs)
        return Graph(self._graph.parameters, outputs) if changed else self._graph

    def _loop(self, node: Node, loop: CountedLoop, live: Collection[int]) -> bool:
        """Whether the loop had to be written anew."""
        needed = _Needed(loop, live, self._stacks)
        if not needed.is_all:
            results = build.results(node)
            self._new |= {results[p]: value for p, value in needed.write().items()}
            return True
        self._loops[loop.node] = loop
        for position, result in enumerate(build.results(loop.node)):
            if stack := needed.inside.number_stack(position):
                self._stacks[result] = stack
        return False


class _Needed:
    """What is needed of a loop of which the `live` results are used."""

    def __init__(
        self, loop: CountedLoop, live: Collection[int], stacks: Mapping[Node, NumberStack]
    ) -> None:
        self._loop = loop
        self._live = live
        parameters, operands = loop.body.parameters, loop.node.operands
        outer = {capture: capture for capture in loop.body.captures}
        outer |= {parameters[p]: operands[p] for p in loop.invariant}
        of_numbers = {inner: stacks[node] for inner, node in outer.items() if node in stacks}
        self.inside = LoopBody(loop, of_numbers)
        self._unchanged = loop.invariant | {p for p, _ in enumerate(parameters) if self._cleared(p)}
        outer |= {parameters[p]: operands[p] for p in self._unchanged}
        slices = [node for node in self.inside.nodes if node.name == "dynamic_slice"]
        known = self.inside.known
        self._numbers = {node: known[node] for node in slices if node in known}
        stacks_read = {node: outer.get(node.operands[0], node.operands[0]) for node in slices}
        self._repeated = {
            node: build.constant(literal(scalar)[0], node.tensor)
            for node, stack in stacks_read.items()
            if (scalar := repeated(stack)) is not None
        }
        self._results = [self._result(p) for p, _ in enumerate(parameters)]
        self._carried = self._find_carried()

    def _cleared(self, position: int) -> bool:
        """Whether a value only loses those of its entries that were read before.

        A step reads and replaces one entry, a different one in each step: what it puts there is
        never read, unless it is after the loop.
        """
        parameter, result = self.inside.state(position)
        updates = [result]
        while (
            updates[-1].name == "dynamic_update_slice" and updates[-1].operands[0] is not parameter
        ):
            updates.append(updates[-1].operands[0])
        index = self.inside.index(updates[-1])
        if position in self._live or not index or not index.step:
            return False
        chain = zip(updates[1:], updates, strict=False)
        alone = all(self.inside.used_by[inner] == [outer] for inner, outer in chain)
        ends = not self.inside.used_by[result] and self._loop.body.results.count(result) == 1
        uses = [*updates, *(u for u in self.inside.used_by[parameter] if u is not updates[-1])]
        reads = all(use.name == "dynamic_slice" for use in uses[len(updates) :])
        return alone and ends and reads and all(self.inside.index(use) == index for use in uses)

    def _result(self, position: int) -> Node:
        """The new value of the state, with what is added to one entry put into that."""
        parameter, result = self.inside.state(position)
        added = _added_in_place(result)
        index = self.inside.index(added)
        start = repeated(self._loop.node.operands[position])
        fresh = index and index.step and added.operands[0] is parameter and _is_zero(start)
        return _put_once(added) if fresh else added

    def _find_carried(self) -> list[int]:
        """The changing values that the live ones are made of, step after step."""
        body = self._loop.body
        fixed = self._unchanged | self._loop.counters.keys()
        known = {*body.captures, *self._numbers, *self._repeated}
        found = [position for position in sorted(self._live) if position not in fixed]
        done: set[Node] = set()
        for position in found:  # which grows
            nodes = topological([self._results[position]], known)
            reached = {*nodes, self._results[position]} - done
            done |= reached
            found += [
                p
                for p, parameter in enumerate(body.parameters)
                if parameter in reached and p not in fixed and p not in found
            ]
        return sorted(found)

    @property
    def is_all(self) -> bool:
        """Whether the loop has only what is needed already."""
        rest = range(1, len(self._results))
        body = self._loop.body
        same = list(body.results) == self._results and not self._numbers and not self._repeated
        counts = self._loop.counters == {0: STEP} and body.parameters[0].dtype == "i32"
        return same and counts and self._carried == list(rest)

    def write(self) -> dict[int, Node]:
        """The loop anew; its live results by their old positions."""
        loop, operands = self._loop, self._loop.node.operands
        initial = [operands[p] for p in self._carried]
        outer = [*operands, *loop.body.captures]
        final = repeat(loop.trips, initial, self._body, outer, loop.node.source)
        results = dict(zip(self._carried, final, strict=True))
        for position in self._live:
            if position in loop.counters:
                last, type_ = loop.counters[position].at(loop.trips), operands[position].tensor
                results[position] = build.constant(last, type_)
            elif position in self._unchanged:
                results[position] = operands[position]
        return results

    def _body(self, step: Node, state: Sequence[Node]) -> list[Node]:
        parameters, operands = self._loop.body.parameters, self._loop.node.operands
        known = {capture: capture for capture in self._loop.body.captures}
        known |= {parameters[p]: operands[p] for p in self._unchanged}
        numbers = {parameters[p]: value for p, value in self._loop.counters.items()} | self._numbers
        known |= {node: number(value, step, node) for node, value in numbers.items()}
        known |= self._repeated
        known |= {parameters[p]: value for p, value in zip(self._carried, state, strict=True)}
        return rebuild([self._results[p] for p in self._carried], known)


def number(value: Affine, step: Node, like: Node) -> Node:
    """A number of a known step, a scalar i32, as a node of the type of another."""
    counted = build.convert(step, like.dtype)
    start, growth = (build.constant(part, counted.tensor) for part in value)
    if value.step == 0:
        return build.reshape(start, like.shape)
    grown = counted if value.step == 1 else build.multiply(growth, counted)
    return build.reshape(build.add(start, grown) if value.start else grown, like.shape)


def _added_in_place(value: Node) -> Node:
    """x + put(0, e, i) => put(x, x[i] + e, i)"""
    if value.name != "add":
        return value
    for x, y in (value.operands, value.operands[::-1]):
        if y.name == "dynamic_update_slice" and _is_zero(repeated(y.operands[0])):
            starts, update = y.operands[2:], y.operands[1]
            stack, old = _entry(_added_in_place(x), starts, update.shape)
            return build.dynamic_update_slice(stack, build.add(old, update), starts)
    return value


def _entry(stack: Node, starts: Sequence[Node], sizes: Sequence[int]) -> tuple[Node, Node]:
    """Where an entry may be put instead of the one that is there, and that one."""
    there = stack.operands[2:] if stack.name == "dynamic_update_slice" else None
    if there == tuple(starts) and stack.operands[1].shape == tuple(sizes):
        return stack.operands[0], stack.operands[1]
    return stack, build.dynamic_slice(stack, starts, sizes)


def _put_once(added: Node) -> Node:
    """put(x, x[i] + e, i) => put(x, e, i), where x[i] is 0 (-0 stays -0)."""
    stack, total, *starts = added.operands
    zero = build.zeros(total.tensor)
    old = build.dynamic_slice(stack, starts, total.shape)
    (entry,) = rebuild([total], {old: zero})
    if entry.name == "add" and entry.operands[0] is zero:
        entry = entry.operands[1]
    return build.dynamic_update_slice(stack, entry, starts)


def _is_zero(scalar: Node | None) -> bool:
    return scalar is not None and not literal(scalar).any()
