"""Planning: sizes in, plans out. No TensorFlow, and nothing is allocated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.op import Cut, Fusion
from tf_memsafe.hlo.order import topological, users
from tf_memsafe.split.choose import choose_cuts, resolve
from tf_memsafe.split.cuts import axis_sizes, operand_cuts
from tf_memsafe.split.demand import LoopPlan
from tf_memsafe.split.liveness import estimate_peak, is_stored
from tf_memsafe.split.loop import write_loops
from tf_memsafe.split.program import Program

CHUNK_BYTES = 8_000_000
"""What the largest tensor of a chunk takes where memory allows: it stays in a CPU's cache, and is
long enough to keep all cores busy (DESIGN section 2, chunks)."""

SMALLEST_THRESHOLD = 4096
"""Bytes below which cutting a value saves nothing worth a loop."""


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


def plans(graph: Graph, room: int) -> Iterator[Plan]:
    """Plans for the graph, each cutting more than the last.

    room: bytes that temporaries may take. A plan equal to the one before is left out.
    """
    previous: tuple[LoopPlan, ...] = ()
    threshold = max(room // 4, SMALLEST_THRESHOLD)
    while True:
        plan = make_plan(graph, threshold)
        if plan.loops and plan.loops != previous:
            previous = plan.loops
            yield plan
        if threshold == SMALLEST_THRESHOLD:
            return
        threshold = max(threshold // 4, SMALLEST_THRESHOLD)


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


def write_plan(plan: Plan, limit: int) -> SplitGraph:
    """The plan with the largest useful chunks whose estimated peak is within `limit` bytes."""
    used_by = users(topological(plan.graph.outputs))
    wanted = [preferred_chunk(loop, used_by) for loop in plan.loops]
    while True:
        split = with_chunks(plan, wanted)
        if split.estimate <= limit or all(chunk == 1 for chunk in wanted):
            return split
        wanted = [max(1, chunk // 2) for chunk in wanted]


def with_chunks(plan: Plan, chunks: Sequence[int]) -> SplitGraph:
    """The plan with chunks of about these many steps: even divisors are preferred."""
    even = tuple(
        even_chunk(loop.steps, chunk) for loop, chunk in zip(plan.loops, chunks, strict=True)
    )
    graph = write_loops(plan.graph, list(zip(plan.loops, even, strict=True)))
    return SplitGraph(plan, even, graph, estimate_peak(graph))


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
