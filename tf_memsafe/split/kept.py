"""Which values that several loops compute are worth keeping for the later ones (DESIGN 6.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import reduce

from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.split.arrange import LoopPlan
from tf_memsafe.split.cost import STORING, computing, traffic, work
from tf_memsafe.split.target import Device

UsedBy = Mapping[Node, Sequence[Node]]


CLEAR_SAVING = 0.01
"""Of the time that all loops take: what keeping a value has to save. `cost` tells no less apart."""


def most_worth_keeping(
    loops: Sequence[LoopPlan], used_by: UsedBy, device: Device, kept: Collection[Node] = ()
) -> Node | None:
    """The value whose keeping saves most time for each of its bytes; None if none saves enough.

    Kept, it is stored chunk by chunk by the first loop that computes it, and read by the others.
    kept: what is not to be considered any more.
    """
    enough = CLEAR_SAVING * sum(computing(loop, device) for loop in loops)
    gains = {
        node: saved / node.type.bytes
        for node, saved in _savings(loops, used_by, device).items()
        if saved > enough and node not in kept and isinstance(node.type, TensorType)
    }
    return max(gains, key=gains.__getitem__, default=None)


def _savings(loops: Sequence[LoopPlan], used_by: UsedBy, device: Device) -> Counter[Node]:
    """The time that all loops after the first would save by reading a value, less of moving it."""
    savings: Counter[Node] = Counter()
    there = {node for loop in loops for node in loop.sinks}
    for loop in loops:
        for node, needed in _needed_for(loop, used_by, device).items():
            if node in savings:
                savings[node] += needed - traffic(node, 1, device)
            elif node not in there:
                savings[node] = -traffic(node, STORING, device)
    return savings


def _needed_for(loop: LoopPlan, used_by: UsedBy, device: Device) -> dict[Node, int]:
    """For each member, the time of computing it and all that the loop computes for it alone."""
    heir = _heirs(loop, used_by)
    total = {node: work(node, device) for node in loop.streamed}
    for node in loop.streamed:  # operands come first
        user = heir[node]
        if user in total:
            total[user] += total[node]
    return total


def _heirs(loop: LoopPlan, used_by: UsedBy) -> dict[Node, Node | None]:
    """For each node of a loop, the next one that every use of it leads to; None if there is none.

    (Its immediate post-dominator: T. Lengauer, R. Tarjan, "A fast algorithm for finding dominators
    in a flowgraph", 1979; for a graph without cycles one pass in reverse order is enough.)
    """
    heir: dict[Node, Node | None] = dict.fromkeys(loop.sinks)
    depth: dict[Node | None, int] = dict.fromkeys(loop.sinks, 1) | {None: 0}

    def common(one: Node | None, other: Node | None) -> Node | None:
        while one is not other:
            if depth[one] < depth[other]:
                one, other = other, one
            assert one is not None
            one = heir[one]
        return one

    for node in reversed(loop.streamed):
        if node not in heir:
            uses: list[Node | None] = [user for user in used_by[node] if user in heir]
            heir[node] = reduce(common, uses)
            depth[node] = depth[heir[node]] + 1
    return heir
