"""Chooses one axis for all that is connected, by what the result costs (DESIGN 6.3)."""

from __future__ import annotations

from typing import NamedTuple

from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.op import Cut
from tf_memsafe.split.cuts import axis_sizes
from tf_memsafe.split.demand import BlockedError, Demand
from tf_memsafe.split.program import Program
from tf_memsafe.split.spread import Spread, spread


class Price(NamedTuple):
    """What a choice costs; the smaller of two is better, the first field first."""

    blocked: bool
    flops: int
    loops: int
    step_bytes: int
    axis: int


def choose_cuts(program: Program) -> dict[Node, Cut]:
    """The cut of each streamed value, and of the small ones between them."""
    cuts: dict[Node, Cut] = {}
    for seed in _seeds(program):
        if seed not in cuts:
            candidates = _candidates(program, seed, cuts)
            best = min(candidates, key=lambda axis: _price(program, cuts, candidates, axis))
            cuts |= candidates[best].cuts
    return cuts


def _seeds(program: Program) -> list[Node]:
    """The streamed values, largest first; what is virtual is cut as its users want it."""
    streamed = [
        node for node in program.nodes if node in program.streamed and node not in program.virtual
    ]
    return sorted(streamed, key=lambda node: -node.type.bytes)


def _candidates(program: Program, seed: Node, taken: dict[Node, Cut]) -> dict[int, Spread]:
    """The axes with the least standing against them, each with where it leads."""
    axes = [axis for axis, size in enumerate(axis_sizes(seed)) if size > 1]
    spreads = {axis: spread(program, seed, axis, taken) for axis in axes}
    fewest = min(len(found.violations) for found in spreads.values())
    return {axis: found for axis, found in spreads.items() if len(found.violations) == fewest}


def _price(
    program: Program, cuts: dict[Node, Cut], candidates: dict[int, Spread], axis: int
) -> Price:
    if len(candidates) == 1:
        return Price(False, 0, 0, 0, axis)
    completed = cuts | candidates[axis].cuts
    for seed in _seeds(program):
        if seed not in completed:
            others = _candidates(program, seed, completed)
            completed |= next(iter(others.values())).cuts
    try:
        demand = Demand(program, completed)
    except BlockedError:
        return Price(True, 0, 0, 0, axis)
    members = [(loop.steps, node) for loop in demand.loops for node in loop.streamed]
    flops = sum(node.op.flops(node) for _, node in members)
    largest = max((node.type.bytes // steps for steps, node in members), default=0)
    return Price(False, flops, len(demand.loops), largest, axis)
