"""Chooses one axis for all that is connected, by what the result costs (DESIGN 6.3)."""

from __future__ import annotations

from typing import NamedTuple

from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.op import Cut
from tf_memsafe.split.arrange import LoopPlan
from tf_memsafe.split.cuts import axis_sizes
from tf_memsafe.split.demand import Demand
from tf_memsafe.split.program import Program
from tf_memsafe.split.spread import Spread, Spreads

CHUNK_BYTES = 8_000_000
"""What the largest tensor of a chunk takes where memory allows: it stays in a CPU's cache, and is
long enough to keep all cores busy (DESIGN section 2, chunks)."""


class Price(NamedTuple):
    """What a choice costs; the smaller of two is better, the first field first.

    excess: bytes that have to exist at once beyond the threshold. flops: of all loops. memory:
    bytes of what exists whole although it is large, and of one step.
    """

    excess: int
    flops: int
    loops: int
    memory: int
    axis: int


def choose_cuts(program: Program) -> dict[Node, Cut]:
    """The cut of each streamed value, and of the small ones between them."""
    cuts: dict[Node, Cut] = {}
    spreads = Spreads(program)
    for seed in _seeds(program):
        if seed not in cuts:
            candidates = _candidates(spreads, seed)
            best = min(_price(program, spreads, cuts, seed, axis) for axis in candidates)
            cuts = candidates[best.axis].cuts | cuts
    return cuts


def resolve(program: Program, cuts: dict[Node, Cut]) -> tuple[Demand, Program]:
    """What the cuts come to; where a value turns out to be needed whole, it is pinned."""
    demand = Demand(program, cuts)
    while demand.blocked:
        program = program.with_pins(demand.blocked)
        demand = Demand(program, cuts)
    return demand, program


def _seeds(program: Program) -> list[Node]:
    """The streamed values, largest first; what is virtual is cut as its users want it."""
    streamed = [
        node for node in program.nodes if node in program.streamed and node not in program.virtual
    ]
    return sorted(streamed, key=lambda node: -node.type.bytes)


def _candidates(spreads: Spreads, seed: Node) -> dict[int, Spread]:
    """The axes of a value, each with where cutting it leads; the least hindered first."""
    axes = [axis for axis, size in enumerate(axis_sizes(seed)) if size > 1]
    found = {axis: spreads(seed, axis) for axis in axes}
    return dict(sorted(found.items(), key=lambda item: item[1].hindrance))


def _price(
    program: Program, spreads: Spreads, cuts: dict[Node, Cut], first: Node, axis: int
) -> Price:
    """The price of cutting `first` along `axis`, and what that leaves open the likeliest way."""
    candidates = _candidates(spreads, first)
    if len(candidates) == 1:
        return Price(0, 0, 0, 0, axis)
    completed = candidates[axis].cuts | cuts
    for seed in _seeds(program):
        if seed not in completed:
            likeliest = next(iter(_candidates(spreads, seed).values()))
            completed = likeliest.cuts | completed
    demand, resolved = resolve(program, completed)
    members = [(loop.steps, node) for loop in demand.loops for node in loop.computed]
    step = max((node.type.bytes // steps for steps, node in members), default=0)
    memory = step + sum(value.type.bytes for value in resolved.pinned)
    flops = sum(node.op.flops(node) for _, node in members) + sum(map(_merging, demand.loops))
    return Price(max(0, memory - program.threshold), flops, len(demand.loops), memory, axis)


def _merging(loop: LoopPlan) -> int:
    """Flops of combining the chunks of what is reduced, if the chunks are of the usual size."""
    largest = max((node.type.bytes for node in loop.streamed), default=0)
    trips = min(loop.steps, max(1, largest // CHUNK_BYTES))
    return trips * sum(
        way.contraction.flops * result.size
        for node, way in loop.sinks.items()
        if way.contraction is not None
        for result in node.results
    )
