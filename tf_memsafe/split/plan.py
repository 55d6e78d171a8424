"""Planning: sizes in, plans out. No TensorFlow, and nothing is allocated."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.op import Cut, Fusion
from tf_memsafe.hlo.order import topological, users
from tf_memsafe.split.arrange import LoopPlan
from tf_memsafe.split.checkpoint import Checkpoint
from tf_memsafe.split.choose import choose_cuts, resolve
from tf_memsafe.split.cuts import axis_sizes, operand_cuts
from tf_memsafe.split.demand import Demand
from tf_memsafe.split.kept import most_worth_keeping
from tf_memsafe.split.liveness import estimate_peak
from tf_memsafe.split.loop import write_loops
from tf_memsafe.split.program import Program
from tf_memsafe.split.sizes import chunk_sizes, even_chunks
from tf_memsafe.split.target import CPU, Device, Target

SMALLEST_THRESHOLD = 4096
"""Bytes below which cutting a value saves nothing worth a loop."""

THRESHOLD_STEP = 4
"""The ratio of a threshold to the next: sizes that differ by less are treated alike."""

MOST_KEPT = 8
"""How many values at most a plan keeps for later loops that would compute them again."""


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
    """A graph with its loops written in, each with the steps that one chunk covers.

    checkpoints: what of the user's loops is computed again instead of being kept.
    """

    plan: Plan
    chunks: tuple[int, ...]
    graph: Graph
    estimate: int
    inner: tuple[tuple[LoopPlan, int], ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()

    @property
    def loops(self) -> tuple[tuple[LoopPlan, int], ...]:
        """Each loop with the steps that one of its chunks covers, the outer loops first."""
        return (*zip(self.plan.loops, self.chunks, strict=True), *self.inner)


Finish = Callable[[SplitGraph], SplitGraph]


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


def make_plan(
    graph: Graph, threshold: int, device: Device = CPU, kept: Collection[Node] = ()
) -> Plan:
    """The plan in which no value above `threshold` bytes exists whole, unless it has to.

    kept: values that the first loop to compute them stores for later ones all the same.
    """
    return _plan(graph, *_resolved(graph, threshold, device), kept)


def make_plans(graph: Graph, threshold: int, device: Device) -> Iterator[Plan]:
    """The plan for the threshold, then plans that keep more and more of what it computes again.

    What saves most time for each of its bytes is kept first. They do not depend on a limit.
    """
    demand, program = _resolved(graph, threshold, device)
    kept: list[Node] = []
    while True:
        plan = _plan(graph, demand, program, kept)
        yield plan
        again = most_worth_keeping(plan.loops, program.users, device, kept)
        if again is None or len(kept) == MOST_KEPT:
            return
        kept.append(again)


def _resolved(graph: Graph, threshold: int, device: Device) -> tuple[Demand, Program]:
    program = Program(graph, threshold, uncuttable(graph, threshold))
    return resolve(program, choose_cuts(program, device))


def _plan(graph: Graph, demand: Demand, program: Program, kept: Collection[Node]) -> Plan:
    blockers = tuple(Blocker(value, user) for value, user in program.pinned.items())
    return Plan(graph, tuple(demand.loops_keeping(kept)), blockers)


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


def uncut(graph: Graph, fusing: bool = True) -> SplitGraph:
    """The graph as it is: the plan that cuts nothing."""
    return with_chunks(Plan(graph, (), ()), (), fusing)


def write_plan(plan: Plan, target: Target) -> SplitGraph:
    """The plan with the first of its `chunk_sizes` whose estimate is within the target's limit.

    The last of them, if none is.
    """
    used_by = users(topological(plan.graph.outputs))
    return write_first(plan, chunk_sizes(plan.loops, used_by, target.device), target)


def write_first(
    plan: Plan,
    sizes: Sequence[Sequence[int]],
    target: Target,
    finish: Finish = lambda split: split,
    last: SplitGraph | None = None,
) -> SplitGraph:
    """The plan with the first of the chunk sizes that is within the limit, else with the last.

    Every size is taken to need less than the one before. finish: what is done to each that is
    tried. last: what came of the last size, where that is known.
    """

    def tried(place: int) -> _Tried:
        return _Tried(place, finish(with_chunks(plan, sizes[place], target.fusing)))

    too_large = tried(0)
    if too_large.split.estimate <= target.limit or len(sizes) == 1:
        return too_large.split
    fits = tried(len(sizes) - 1) if last is None else _Tried(len(sizes) - 1, last)
    if fits.split.estimate > target.limit:
        return fits.split
    while fits.place - too_large.place > 1:
        between = tried(_between(too_large, fits, sizes, target.limit))
        if between.split.estimate <= target.limit:
            fits = between
        else:
            too_large = between
    return fits.split


class _Tried(NamedTuple):
    place: int
    split: SplitGraph


def _between(too_large: _Tried, fits: _Tried, sizes: Sequence[Sequence[int]], limit: int) -> int:
    """The place of the first of the chunk sizes between two that is likely to be within the limit.

    A peak is the largest of sums that grow evenly with the chunk; so it is at most what lies on the
    line between two of them.
    """
    share = (limit - fits.split.estimate) / (too_large.split.estimate - fits.split.estimate)
    least, most = max(fits.split.chunks), max(too_large.split.chunks)
    wanted = least + share * (most - least)
    between = range(too_large.place + 1, fits.place)
    return next((place for place in between if max(sizes[place]) <= wanted), between[-1])


def with_chunks(plan: Plan, chunks: Sequence[int], fusing: bool = True) -> SplitGraph:
    """The plan with chunks of about these many steps: even divisors are preferred."""
    even = even_chunks(plan.loops, chunks)
    graph = write_loops(plan.graph, list(zip(plan.loops, even, strict=True)))
    return SplitGraph(plan, even, graph, estimate_peak(graph, fusing))
