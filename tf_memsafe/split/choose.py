"""Chooses one axis for all that is connected, by what the result costs (DESIGN 6.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.op import Cut
from tf_memsafe.split.components import components
from tf_memsafe.split.cost import combining, computing
from tf_memsafe.split.demand import Demand
from tf_memsafe.split.program import Program
from tf_memsafe.split.sizes import preferred_chunk
from tf_memsafe.split.spread import Spread, least_hindered, spreads
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
    priced = 0
    for seed in _seeds(program):
        if seed in cuts:
            continue
        if priced == MOST_PRICED:
            _add(cuts, least_hindered(program, seed, cuts).cuts)
            continue
        candidates = spreads(program, seed, cuts)
        priced += len(candidates) > 1
        _add(cuts, _cheapest(program, device, candidates, cuts))
    return cuts


def _cheapest(
    program: Program, device: Device, candidates: Mapping[int, Spread], cuts: Mapping[Node, Cut]
) -> dict[Node, Cut]:
    """The cuts that the best axis leads to."""
    (axis, *more), options = candidates, candidates.items()
    if more:
        axis = min(_price(program, device, cuts, each, axis) for axis, each in options).axis
    return candidates[axis].cuts


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


def _price(
    program: Program, device: Device, cuts: Mapping[Node, Cut], first: Spread, axis: int
) -> Price:
    """The price of the cuts of a spread, and of what that leaves open cut the likeliest way.

    axis: the one that the spread comes from.
    """
    completed = dict(cuts)
    _add(completed, first.cuts)
    for seed in _seeds(program):
        if seed not in completed:
            _add(completed, least_hindered(program, seed, completed).cuts)
    demand, resolved = resolve(program, completed)
    members = [(loop.steps, node) for loop in demand.loops for node in loop.computed]
    step = max((node.type.bytes // steps for steps, node in members), default=0)
    memory = step + sum(value.type.bytes for value in resolved.pinned)
    time = 0
    for loop in demand.loops:
        time += computing(loop, device)
        time += loop.trips(preferred_chunk(loop, program.users, device)) * combining(loop)
    return Price(max(0, memory - program.threshold), time, len(demand.loops), memory, axis)
