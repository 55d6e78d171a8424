"""Keeps less of each step of a loop for its gradient, and computes it again instead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.simplify import simplify
from tf_memsafe.split.absorb import absorb
from tf_memsafe.split.branches import recompute_branches
from tf_memsafe.split.divisions import Parts, divisions, steps_run
from tf_memsafe.split.join import join_loops
from tf_memsafe.split.liveness import estimate_peak
from tf_memsafe.split.normal import normal_loops
from tf_memsafe.split.segments import write_segments
from tf_memsafe.split.stacks import is_loop_or_branch
from tf_memsafe.split.sweeps import Group, find_groups


@dataclass(frozen=True)
class Checkpoint:
    """What is kept of the steps of loops that go over the same `trips` steps.

    loops: the first is the one whose steps the others need. parts: how many steps a segment has at
    whose beginning the state is kept, then the segments that it is divided into, and so on. again:
    how many steps are run again. has_state: whether there is anything to keep.
    """

    loops: tuple[Node, ...]
    trips: int
    parts: Parts
    again: int
    has_state: bool


@dataclass(frozen=True)
class Checkpointed:
    """A graph, and what of it is computed again instead of being kept."""

    graph: Graph
    checkpoints: tuple[Checkpoint, ...] = ()


def checkpoint_loops(graph: Graph, room: int, fusing: bool = True) -> Checkpointed:
    """The graph with as little of its loops' steps computed again as it takes to fit `room` bytes.

    room: what the estimate of everything (arguments and results too) has to be within. If nothing
    does it, the smallest; the graph itself where no loop or branch can do with less.
    """
    best, least = Checkpointed(graph), estimate_peak(graph, fusing)
    if not any(is_loop_or_branch(node) for node in topological(graph.outputs)):
        return best
    candidates = _candidates(graph, room, fusing)
    while least > room and (candidate := next(candidates, None)) is not None:
        peak = estimate_peak(candidate.graph, fusing)
        if peak < least:
            best, least = candidate, peak
    return best


def _candidates(graph: Graph, room: int, fusing: bool) -> Iterator[Checkpointed]:
    """What keeps less and less of loops' steps, and then of branches, too."""
    yield from _loops(graph, room, fusing)
    tidy = simplify(graph)
    if (branches := recompute_branches(tidy)) is not tidy:
        yield Checkpointed(branches)
        yield from _loops(branches, room, fusing)


def _loops(graph: Graph, room: int, fusing: bool) -> Iterator[Checkpointed]:
    normal = normal_loops(join_loops(normal_loops(graph)))
    yield Checkpointed(normal)
    yield _divide(normal, room, fusing)
    absorbed = normal_loops(join_loops(normal_loops(absorb(normal))))
    if absorbed is not normal:
        yield Checkpointed(absorbed)
        yield _divide(absorbed, room, fusing)


def _divide(graph: Graph, room: int, fusing: bool) -> Checkpointed:
    """The graph with the steps of one group of loops after another divided, until it fits."""
    found = Checkpointed(graph)
    for key in [group.key for group in find_groups(graph)]:
        groups = [group for group in find_groups(found.graph) if group.key is key]
        if groups and estimate_peak(found.graph, fusing) > room:
            found = _choose(found, groups[0], room, fusing)
    return found


def _choose(given: Checkpointed, group: Group, room: int, fusing: bool) -> Checkpointed:
    """The first division of this group that fits, else the one that takes least."""
    best, least = given, estimate_peak(given.graph, fusing)
    for parts in divisions(group):
        graph = write_segments(given.graph, group, parts)
        peak = estimate_peak(graph, fusing)
        if peak < least:
            made = (*given.checkpoints, _record(group, parts))
            best, least = Checkpointed(graph, made), peak
        if least <= room:
            break
    return best


def _record(group: Group, parts: Parts) -> Checkpoint:
    loops = tuple(sweep.loop.node for sweep in group.sweeps)
    again = steps_run(group, parts) - group.trips * len(loops)
    return Checkpoint(loops, group.trips, parts, again, group.state_bytes > 0)
