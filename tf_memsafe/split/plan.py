"""Planning: sizes in, plans out. No TensorFlow, and nothing is allocated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.op import Cut, Fusion
from tf_memsafe.hlo.order import topological, users
from tf_memsafe.split.arrange import LoopPlan
from tf_memsafe.split.checkpoint import checkpoint_loops
from tf_memsafe.split.choose import CHUNK_BYTES, choose_cuts, resolve
from tf_memsafe.split.cost import cost
from tf_memsafe.split.cuts import axis_sizes, operand_cuts
from tf_memsafe.split.inside import Inside
from tf_memsafe.split.liveness import estimate_peak, is_stored
from tf_memsafe.split.loop import write_loops
from tf_memsafe.split.program import Program

SMALLEST_THRESHOLD = 4096
"""Bytes below which cutting a value saves nothing worth a loop."""

THRESHOLD_STEP = 4
"""The ratio of a threshold to the next: sizes that differ by less are treated alike."""

USEFUL_THRESHOLD = 250_000
"""Bytes below which cutting a value saves no time: it is in the cache either way."""


@dataclass(frozen=True)
class Blocker:
    """A value that has to exist whole because `user` cannot work on chunks of it."""

    value: Node
    user: Node


@dataclass(frozen=True)
class Plan:
    """What to cut: the loops, and what could not be cut."""

    graph: Graph
    loops: tuple[LoopPlan, ...]
    blockers: tuple[Blocker, ...]


@dataclass(frozen=True)
class SplitGraph:
    """A graph with its loops written in, each with the steps that one chunk covers."""

    plan: Plan
    chunks: tuple[int, ...]
    graph: Graph
    estimate: int
    inner: tuple[tuple[LoopPlan, int], ...] = ()

    @property
    def loops(self) -> tuple[tuple[LoopPlan, int], ...]:
        """Each loop with the steps that one of its chunks covers, the outer loops first."""
        return (*zip(self.plan.loops, self.chunks, strict=True), *self.inner)


MOST_NESTED = 3
"""How deep loops are cut again: for each axis of a kernel matrix, and one more."""


def best_cut(graph: Graph, limit: int, fusing: bool = True, depth: int = 1) -> SplitGraph | None:
    """The graph cut the cheapest way whose estimate is within `limit` bytes.

    If nothing does it, the cut with the smallest estimate; None if there is nothing to cut.
    fusing: whether XLA is taken to fuse what it mostly does (`liveness.estimate_peak`).
    """
    as_given, graph = graph, checkpoint_loops(graph, limit, fusing)
    inside = cut_inside(uncut(graph, fusing), limit, fusing, depth)
    changed = bool(inside.inner) or graph is not as_given
    if changed and inside.estimate <= limit:
        return inside
    fitting, others = _written(graph, limit, fusing)
    if fitting:
        return min(fitting, key=lambda split: cost(graph, split.plan.loops))
    # No cut along one axis a loop is enough: the loops are cut again.
    others += [inside] if changed else []
    nested = [cut_inside(split, limit, fusing, depth) for split in others if not split.inner]
    return min((*others, *nested), key=lambda split: split.estimate, default=None)


def _written(graph: Graph, limit: int, fusing: bool) -> tuple[list[SplitGraph], list[SplitGraph]]:
    """The plans worth comparing, written: those whose estimate is within the limit, and others."""
    fitting: list[SplitGraph] = []
    others: list[SplitGraph] = []
    for threshold in thresholds(graph):
        if fitting and threshold < USEFUL_THRESHOLD:
            break
        plan = make_plan(graph, threshold)
        if plan.loops:
            split = write_plan(plan, limit, fusing)
            (fitting if split.estimate <= limit else others).append(split)
    return fitting, others


def cut_inside(split: SplitGraph, limit: int, fusing: bool, depth: int = 1) -> SplitGraph:
    """The same with its loops and branches cut again where that is needed, and possible."""
    if split.estimate <= limit or depth > MOST_NESTED:
        return split
    inner: list[tuple[LoopPlan, int]] = []

    def cut(graph: Graph, inner_limit: int) -> Graph | None:
        smallest = best_cut(graph, inner_limit, fusing, depth + 1)
        if smallest is None:
            return None
        inner.extend(smallest.loops)
        return smallest.graph

    graph = Inside(cut, limit, fusing)(split.graph)
    estimate = estimate_peak(graph, fusing)
    return replace(split, graph=graph, estimate=estimate, inner=tuple(inner))


def thresholds(graph: Graph) -> Iterator[int]:
    """Thresholds for plans of the graph, each cutting more than the last.

    They do not depend on a limit: what fits a limit is considered for a larger one as well.
    """
    streamed: frozenset[Node] = frozenset()
    threshold = max((node.type.bytes for node in topological(graph.outputs)), default=0)
    while threshold > SMALLEST_THRESHOLD:
        threshold = max(threshold // THRESHOLD_STEP, SMALLEST_THRESHOLD)
        program = Program(graph, threshold)
        if program.streamed != streamed:
            streamed = program.streamed
            yield threshold


def make_plan(graph: Graph, threshold: int) -> Plan:
    """The plan in which no value above `threshold` bytes exists whole, unless it has to."""
    program = Program(graph, threshold, uncuttable(graph, threshold))
    demand, resolved = resolve(program, choose_cuts(program))
    blockers = tuple(Blocker(value, user) for value, user in resolved.pinned.items())
    return Plan(graph, tuple(demand.loops), blockers)


def unavoidable(graph: Graph, limit: int) -> tuple[Blocker, ...]:
    """The values, larger than `limit` bytes, that a library call needs or makes whole."""
    return tuple(
        Blocker(value, user)
        for value, user in uncuttable(graph, limit).items()
        if user.op.fusion is Fusion.CALL
    )


def uncuttable(graph: Graph, threshold: int) -> dict[Node, Node]:
    """The large values that no choice of axis can cut, each with the user that is to blame."""
    program = Program(graph, threshold)
    found: dict[Node, Node] = {}
    for node in program.nodes:
        sliceable = any(
            operand_cuts(node, Cut(axis)) is not None for axis, _ in enumerate(axis_sizes(node))
        )
        if not sliceable and node in program.streamed:
            found[node] = node
        if not sliceable and not node.op.contract(node) and node.name != "get_tuple_element":
            found.update({o: node for o in node.dependencies if o in program.streamed})
    return found


def write_plan(plan: Plan, limit: int, fusing: bool = True) -> SplitGraph:
    """The plan with the largest useful chunks whose estimated peak is within `limit` bytes."""
    used_by = users(topological(plan.graph.outputs))
    wanted = [preferred_chunk(loop, used_by) for loop in plan.loops]
    split = with_chunks(plan, wanted, fusing)
    if split.estimate <= limit:
        return split
    least = with_chunks(plan, [1] * len(wanted), fusing)
    while split.estimate > limit > least.estimate and max(wanted) > 1:
        share = min(0.5, (limit - least.estimate) / (split.estimate - least.estimate))
        wanted = [max(1, int(chunk * share)) for chunk in wanted]
        split = with_chunks(plan, wanted, fusing)
    return split if split.estimate <= limit else least


def uncut(graph: Graph, fusing: bool = True) -> SplitGraph:
    """The graph as it is: the plan that cuts nothing."""
    return with_chunks(Plan(graph, (), ()), (), fusing)


def with_chunks(plan: Plan, chunks: Sequence[int], fusing: bool = True) -> SplitGraph:
    """The plan with chunks of about these many steps: even divisors are preferred."""
    even = tuple(
        even_chunk(loop.steps, chunk) for loop, chunk in zip(plan.loops, chunks, strict=True)
    )
    graph = write_loops(plan.graph, list(zip(plan.loops, even, strict=True)))
    return SplitGraph(plan, even, graph, estimate_peak(graph, fusing))


def preferred_chunk(loop: LoopPlan, used_by: Mapping[Node, Sequence[Node]]) -> int:
    """Steps whose largest stored tensor takes about CHUNK_BYTES."""
    stored = [node for node in loop.streamed if is_stored(node, used_by[node])]
    largest = max((node.type.bytes for node in stored or loop.streamed), default=0)
    return max(1, min(loop.steps, CHUNK_BYTES * loop.steps // max(1, largest)))


def even_chunk(steps: int, chunk: int) -> int:
    """A divisor of `steps` not far below `chunk`, else the chunk that leaves the best remainder."""
    for divisor in range(chunk, max(1, chunk * 3 // 4) - 1, -1):
        if steps % divisor == 0:
            return divisor
    return ceil(steps / ceil(steps / chunk))
