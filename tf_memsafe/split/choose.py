"""Chooses one axis for all that is connected, by what the result costs (DESIGN 6.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.op import Cut
from tf_memsafe.split.components import components
from tf_memsafe.split.cost import combining, work
from tf_memsafe.split.cuts import axis_sizes
from tf_memsafe.split.demand import Demand
from tf_memsafe.split.program import Program
from tf_memsafe.split.sizes import preferred_chunk
from tf_memsafe.split.spread import Spread, Spreads
from tf_memsafe.split.target import Device


class Price(NamedTuple):
    """What a choice costs; the smaller of two is better, the first field first.

    excess: bytes that have to exist at once beyond the threshold. time: of all loops, in units of
    the device. memory: bytes of what exists whole although it is large, and of one step.
    """

    excess: int
    time: int
    loops: int
    memory: int
    axis: int


MOST_PRICED = 16
"""How many values of one component have their axes priced; it takes a plan of the whole of it to
price one. What the largest of them do not reach is cut along the axis that is least hindered."""


def choose_cuts(program: Program, device: Device) -> dict[Node, Cut]:
    """The cut of each streamed value, and of the small ones between them."""
    cuts: dict[Node, Cut] = {}
    for component in components(program):
        _add(cuts, _choose(component, device))
    return cuts


def _choose(program: Program, device: Device) -> dict[Node, Cut]:
    cuts: dict[Node, Cut] = {}
    spreads, priced = Spreads(program), 0
    for seed in _seeds(program):
        if seed not in cuts:
            candidates = _candidates(spreads, seed)
            axis = next(iter(candidates))
            if len(candidates) > 1 and priced < MOST_PRICED:
                priced += 1
                prices = [_price(program, device, spreads, cuts, seed, a) for a in candidates]
                axis = min(prices).axis
            _add(cuts, candidates[axis].cuts)
    return cuts


def _add(cuts: dict[Node, Cut], more: Mapping[Node, Cut]) -> None:
    """Adds cuts of nodes that have none yet."""
    for node, cut in more.items():
        cuts.setdefault(node, cut)


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
    program: Program,
    device: Device,
    spreads: Spreads,
    cuts: dict[Node, Cut],
    first: Node,
    axis: int,
) -> Price:
    """The price of cutting `first` along `axis`, and what that leaves open the likeliest way."""
    completed = dict(cuts)
    _add(completed, _candidates(spreads, first)[axis].cuts)
    for seed in _seeds(program):
        if seed not in completed:
            likeliest = next(iter(_candidates(spreads, seed).values()))
            _add(completed, likeliest.cuts)
    demand, resolved = resolve(program, completed)
    members = [(loop.steps, node) for loop in demand.loops for node in loop.computed]
    step = max((node.type.bytes // steps for steps, node in members), default=0)
    memory = step + sum(value.type.bytes for value in resolved.pinned)
    time = sum(work(node, device) for _, node in members)
    for loop in demand.loops:
        time += loop.trips(preferred_chunk(loop, program.users, device)) * combining(loop)
    return Price(max(0, memory - program.threshold), time, len(demand.loops), memory, axis)
