"""Which plan: the cheapest that fits a limit, cut again inside its loops where none does."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf
from typing import NamedTuple

from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.order import topological, users
from tf_memsafe.split.arrange import LoopPlan
from tf_memsafe.split.checkpoint import Checkpoint, checkpoint_loops
from tf_memsafe.split.cost import merging, plan_cost
from tf_memsafe.split.inside import Inside
from tf_memsafe.split.liveness import estimate_peak
from tf_memsafe.split.plan import Plan, SplitGraph, make_plans, thresholds, uncut, write_first
from tf_memsafe.split.sink import sink
from tf_memsafe.split.sizes import chunk_sizes
from tf_memsafe.split.target import Device, Target
from tf_memsafe.split.written import written_cost

MOST_NESTED = 3
"""How deep loops are cut again: for each axis of a kernel matrix, and one more."""

MUCH = 0.1
"""The share of a plan's time from which it is worth looking for a plan that spends less of it on
merging what its chunks found."""

MOST_REMEMBERED = 200
"""Of how many programs the plans are kept: a search asks for those of one program, and of what its
loops do, under several limits."""


def best_cut(graph: Graph, target: Target, depth: int = 1) -> SplitGraph | None:
    """The graph cut the cheapest way whose estimate is within the target's limit.

    If nothing does it, the cut with the smallest estimate; None if there is nothing to cut.
    """
    found = _cut(graph, target, depth)
    if (found is None or found.estimate > target.limit) and (sunk := sink(graph)) != graph:
        both = found, _cut(sunk, target, depth)
        return min(filter(None, both), key=lambda split: split.estimate, default=None)
    return found


def _cut(graph: Graph, target: Target, depth: int) -> SplitGraph | None:
    """The same, of the graph whose loops are given what they are given."""
    kept = checkpointed(graph, target)
    inside = cut_inside(kept, target, depth)
    changed = bool(inside.inner) or kept.graph != graph
    fits = changed and inside.estimate <= target.limit
    if fits and inside.inner:
        return inside
    most = plan_cost(inside.graph, (), target.device).of(()) if fits else inf
    cheapest, others = _cheapest(kept.graph, target, most)
    if cheapest is not None:
        return _in_larger_chunks(cheapest, kept.checkpoints, target, depth)
    if fits:
        return inside
    # No cut along one axis a loop is enough: the loops are cut again.
    nested = [_nested(other, kept.checkpoints, target, depth) for other in others]
    nested += [inside] if changed else []
    if fitting := [split for split in nested if split.estimate <= target.limit]:
        return min(fitting, key=lambda split: written_cost(split.graph, target.device))
    return min(nested, key=lambda split: split.estimate, default=None)


def _in_larger_chunks(
    cheapest: _Fitting, checkpoints: tuple[Checkpoint, ...], target: Target, depth: int
) -> SplitGraph:
    """The plan in larger chunks that are cut again inside, where it takes less time so.

    To merge what was found takes as long for a chunk of any size: the nearest of 1,000,000 points
    to 2,000 queries are looked for in 25 chunks of eight parts each, and not in 125 chunks.
    """
    choice, number = cheapest.choice, cheapest.number
    split = replace(cheapest.split, checkpoints=checkpoints)
    merged = sum(loop.trips(chunk) * merging(loop) for loop, chunk in split.loops)
    if number == 0 or merged < MUCH * choice.costs[number]:
        return split
    larger = _nested(choice._replace(sizes=choice.sizes[:number]), checkpoints, target, depth)
    if larger.estimate > target.limit:
        return split
    return min(larger, split, key=lambda each: written_cost(each.graph, target.device))


def _nested(
    choice: _Choice, checkpoints: tuple[Checkpoint, ...], target: Target, depth: int
) -> SplitGraph:
    """A plan that fits in none of its chunk sizes, cut again inside in the fastest that then do."""

    def finish(split: SplitGraph) -> SplitGraph:
        return cut_inside(replace(split, checkpoints=checkpoints), target, depth)

    smallest = write_first(choice.plan, choice.sizes[-1:], target, finish)
    if smallest.estimate > target.limit:
        return smallest
    if len(choice.sizes) == 1:
        return smallest
    return write_first(choice.plan, choice.sizes, target, finish, last=smallest)


def checkpointed(graph: Graph, target: Target) -> SplitGraph:
    """The graph with steps of its loops computed again as far as the limit asks for it, uncut."""
    kept = checkpoint_loops(graph, target.limit, target.fusing)
    return replace(uncut(kept.graph, target.fusing), checkpoints=kept.checkpoints)


def cut_inside(split: SplitGraph, target: Target, depth: int = 1) -> SplitGraph:
    """The same with its loops and branches cut again where that is needed, and possible."""
    if split.estimate <= target.limit or depth > MOST_NESTED:
        return split
    inner: list[tuple[LoopPlan, int]] = []
    checkpoints = [*split.checkpoints]
    deeper = depth + bool(split.plan.loops)  # how deep a user nests loops is up to the user

    def cut(graph: Graph, limit: int) -> Graph | None:
        smallest = best_cut(graph, replace(target, limit=limit), deeper)
        if smallest is None:
            return None
        inner.extend(smallest.loops)
        checkpoints.extend(smallest.checkpoints)
        return smallest.graph

    graph = Inside(cut, target.limit, target.fusing)(split.graph)
    estimate = estimate_peak(graph, target.fusing)
    again = tuple(checkpoints)
    return replace(split, graph=graph, estimate=estimate, inner=tuple(inner), checkpoints=again)


class _Choice(NamedTuple):
    """A plan, its chunk sizes, the fastest first, and what it costs in each, whatever the limit."""

    plan: Plan
    sizes: Sequence[Sequence[int]]
    costs: Sequence[int]


class _Fitting(NamedTuple):
    """A choice in the chunk size of this number, which fits."""

    split: SplitGraph
    choice: _Choice
    number: int


def _cheapest(
    graph: Graph, target: Target, price: float = inf
) -> tuple[_Fitting | None, list[_Choice]]:
    """The cheapest plan whose estimate is within the limit, and plans that do not fit.

    price: what it has to cost less than.

    A larger limit never gives a slower plan: what is compared does not depend on the limit, what
    fits one limit fits a larger one, and then in chunks that are no smaller.
    """
    best: _Fitting | None = None
    others: list[_Choice] = []
    for choices in _by_cost(graph, target.device):
        for choice in choices:
            number = bisect_left(choice.costs, price)
            split = _first_of(choice, number, target)
            if split is not None and split.estimate <= target.limit:
                best = _Fitting(split, choice, choice.sizes.index(split.chunks))
                price = choice.costs[best.number]
            elif number == len(choice.sizes):
                others.append(choice)
                break  # what keeps more needs more
    return best, others


def _first_of(choice: _Choice, number: int, target: Target) -> SplitGraph | None:
    """The plan in the first of its `number` fastest chunk sizes that fits, else in the last.

    Where those are not all, that last one alone tells whether any of them is likely to fit.
    """
    plan, sizes = choice.plan, choice.sizes[:number]
    if number in (0, len(choice.sizes)):
        return write_first(plan, sizes, target) if sizes else None
    last = write_first(plan, sizes[-1:], target)
    if last.estimate > target.limit or number == 1:
        return last
    return write_first(plan, sizes, target, last=last)


@lru_cache(maxsize=MOST_REMEMBERED)
def _by_cost(graph: Graph, device: Device) -> list[Sequence[_Choice]]:
    """For each threshold the plans worth comparing, the one that keeps least first."""
    used_by = users(topological(graph.outputs))

    def choice(plan: Plan) -> _Choice:
        sizes = chunk_sizes(plan.loops, used_by, device)
        costs = plan_cost(graph, plan.loops, device)
        return _Choice(plan, sizes, [costs.of(chunks) for chunks in sizes])

    found = [[choice(plan) for plan in plans] for plans in _different(graph, device)]
    return sorted(found, key=lambda each: min(choice.costs[0] for choice in each))


def _different(graph: Graph, device: Device) -> Iterator[list[Plan]]:
    """The plans for each threshold that has loops, if they are not those of one before.

    What is small and lies between large values is computed in their loops whatever the threshold.
    """
    seen = []
    for threshold in thresholds(graph):
        plans = [*make_plans(graph, threshold, device)]
        loops = [plan.loops for plan in plans]
        if loops[0] and loops not in seen:
            seen.append(loops)
            yield plans
