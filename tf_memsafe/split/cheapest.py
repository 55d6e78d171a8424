"""Which plan: the cheapest that fits a limit, cut again inside its loops where none does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf
from typing import NamedTuple

from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.order import topological, users
from tf_memsafe.split.arrange import LoopPlan
from tf_memsafe.split.checkpoint import checkpoint_loops
from tf_memsafe.split.cost import cost
from tf_memsafe.split.inside import Inside
from tf_memsafe.split.liveness import estimate_peak
from tf_memsafe.split.plan import Plan, SplitGraph, make_plans, thresholds, uncut, write_plan
from tf_memsafe.split.sizes import chunk_sizes
from tf_memsafe.split.target import Device, Target

MOST_NESTED = 3
"""How deep loops are cut again: for each axis of a kernel matrix, and one more."""


def best_cut(graph: Graph, target: Target, depth: int = 1) -> SplitGraph | None:
    """The graph cut the cheapest way whose estimate is within the target's limit.

    If nothing does it, the cut with the smallest estimate; None if there is nothing to cut.
    """
    as_given, graph = graph, checkpoint_loops(graph, target.limit, target.fusing)
    inside = cut_inside(uncut(graph, target.fusing), target, depth)
    changed = bool(inside.inner) or graph is not as_given
    if changed and inside.estimate <= target.limit:
        return inside
    cheapest, others = _cheapest(graph, target)
    if cheapest is not None:
        return cheapest
    # No cut along one axis a loop is enough: the loops are cut again.
    others += [inside] if changed else []
    nested = [cut_inside(split, target, depth) for split in others if not split.inner]
    return min((*others, *nested), key=lambda split: split.estimate, default=None)


def cut_inside(split: SplitGraph, target: Target, depth: int = 1) -> SplitGraph:
    """The same with its loops and branches cut again where that is needed, and possible."""
    if split.estimate <= target.limit or depth > MOST_NESTED:
        return split
    inner: list[tuple[LoopPlan, int]] = []

    def cut(graph: Graph, limit: int) -> Graph | None:
        smallest = best_cut(graph, replace(target, limit=limit), depth + 1)
        if smallest is None:
            return None
        inner.extend(smallest.loops)
        return smallest.graph

    graph = Inside(cut, target.limit, target.fusing)(split.graph)
    estimate = estimate_peak(graph, target.fusing)
    return replace(split, graph=graph, estimate=estimate, inner=tuple(inner))


class _Choice(NamedTuple):
    """A plan, and what it costs in the chunks that run fastest, whatever the limit."""

    plan: Plan
    least: int


def _cheapest(graph: Graph, target: Target) -> tuple[SplitGraph | None, list[SplitGraph]]:
    """The cheapest plan whose estimate is within the limit, and the plans that do not fit.

    A larger limit never gives a slower plan: what is compared does not depend on the limit, what
    fits one limit fits a larger one, and then in chunks that are no smaller.
    """
    best: SplitGraph | None = None
    price, others = inf, list[SplitGraph]()
    for choices in _by_cost(graph, target.device):
        if min(choice.least for choice in choices) >= price:
            break
        first = write_plan(choices[0].plan, target)
        if first.estimate > target.limit:  # and so is what keeps more
            others.append(first)
            continue
        for plan, least in choices:
            if least < price:
                split = first if plan is first.plan else write_plan(plan, target)
                its_price = cost(graph, split.loops, target.device)
                if split.estimate <= target.limit and its_price < price:
                    best, price = split, its_price
    return best, others


@lru_cache(maxsize=16)  # a search asks for plans of one graph under several limits
def _by_cost(graph: Graph, device: Device) -> list[Sequence[_Choice]]:
    """For each threshold the plans worth comparing, the one that keeps least first."""
    used_by = users(topological(graph.outputs))

    def choices(threshold: int) -> Iterator[_Choice]:
        for plan in make_plans(graph, threshold, device):
            fastest = chunk_sizes(plan.loops, used_by, device)[0]
            loops = list(zip(plan.loops, fastest, strict=True))
            yield _Choice(plan, cost(graph, loops, device))

    found = [list(choices(threshold)) for threshold in thresholds(graph)]
    cutting = [each for each in found if each[0].plan.loops]
    return sorted(cutting, key=lambda each: min(choice.least for choice in each))
