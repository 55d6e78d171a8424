"""What a plan takes in time, roughly: it ranks plans that all fit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.order import topological, users
from tf_memsafe.split.arrange import LoopPlan
from tf_memsafe.split.cuts import requests, way_along
from tf_memsafe.split.liveness import is_stored
from tf_memsafe.split.target import CPU, Device

PRODUCTS = {"dot_general", "convolution", "triangular_solve", "cholesky"}
"""What library calls compute, several times as fast as a fused loop would."""

STORING = 2
"""How often a value that a loop stores chunk by chunk is written: its buffer is zero at first."""

COMBINING = 4
"""How often a sum's bytes move for each chunk: the chunk's part is written, it and the sum are
read, and the new sum is written."""

Loops = Sequence[tuple[LoopPlan, int]]


@dataclass(frozen=True)
class PlanCost:
    """Units of time (`target.Device`) of a graph whose loops are cut in chunks of any size.

    fixed: of what does not depend on the chunks. each_chunk: of every chunk of each loop.
    """

    loops: Sequence[LoopPlan]
    fixed: int
    each_chunk: Sequence[int]

    def of(self, chunks: Sequence[int]) -> int:
        """With the steps that one chunk of each loop covers: the larger they are, the less."""
        parts = zip(self.loops, chunks, self.each_chunk, strict=True)
        return self.fixed + sum(loop.trips(chunk) * each for loop, chunk, each in parts)


def plan_cost(graph: Graph, loops: Sequence[LoopPlan], device: Device = CPU) -> PlanCost:
    """What all that is computed, moved and started takes, in the loops and outside them."""
    nodes = topological(graph.outputs)
    used_by = users(nodes)
    fixed = _whole_cost(nodes, used_by, loops, device)
    fixed += sum(computing(loop, device) for loop in loops)
    return PlanCost(loops, fixed, [_chunk_cost(loop, used_by, device) for loop in loops])


def cost(graph: Graph, loops: Loops = (), device: Device = CPU) -> int:
    """Units of time of a graph with these loops, each with the steps that one chunk covers."""
    chunks = [chunk for _, chunk in loops]
    return plan_cost(graph, [loop for loop, _ in loops], device).of(chunks)


def work(node: Node, device: Device) -> int:
    """Units of time of computing the whole value once."""
    flops = node.op.flops(node)
    return flops // device.product_speedup if node.name in PRODUCTS else flops


def computing(loop: LoopPlan, device: Device) -> int:
    """Units of time of all that the chunks of a loop compute."""
    return sum(work(node, device) for node in loop.computations)


def traffic(node: Node, times: int, device: Device) -> int:
    """Units of time of writing or reading the whole value so many times in all."""
    return times * node.type.bytes if node.type.bytes > device.cache_bytes else 0


def read_whole(loop: LoopPlan, device: Device) -> int:
    """Units of time of reading the values that each chunk needs whole."""
    total = whole_bytes(loop)
    return total if total > device.cache_bytes else 0


def whole_bytes(loop: LoopPlan) -> int:
    """Bytes of the values that each chunk needs whole."""
    ways = [*loop.sinks.items(), *((node, way_along(node, cut)) for node, cut in loop.members)]
    whole = {
        operand
        for node, way in ways
        for operand, cut, _ in requests(node, way.cut, way.operands, way.span)
        if cut is None
    }
    return sum(operand.type.bytes for operand in whole)


def combining(loop: LoopPlan) -> int:
    """Units of time of adding one chunk's part to what the loop sums, or combines otherwise."""
    moved = COMBINING * sum(
        node.type.bytes for node, way in loop.sinks.items() if way.contraction is not None
    )
    return merging(loop) + moved


def merging(loop: LoopPlan) -> int:
    """Of those, the flops."""
    return sum(
        way.contraction.flops * result.size
        for node, way in loop.sinks.items()
        if way.contraction is not None
        for result in node.results
    )


def _whole_cost(
    nodes: Sequence[Node],
    used_by: Mapping[Node, Sequence[Node]],
    loops: Sequence[LoopPlan],
    device: Device,
) -> int:
    """Of what is computed outside the loops, and of moving what exists whole."""
    members, computed = _loops_of(loops)
    sinks = {node for loop in loops for node in loop.sinks}
    total = 0
    for node in nodes:
        if node not in computed:
            total += work(node, device)
        stored = node in sinks or (node not in computed and is_stored(node, used_by[node]))
        if stored or node.name == "parameter":
            written = STORING if node in sinks else int(stored)
            readers = _readers(node, used_by[node], members, computed)
            total += traffic(node, written + readers, device)
    return total


def _loops_of(loops: Sequence[LoopPlan]) -> tuple[dict[Node, set[int]], dict[Node, set[int]]]:
    """In which loops each node is a member, and in which it is a member or a sink."""
    members: dict[Node, set[int]] = defaultdict(set)
    computed: dict[Node, set[int]] = defaultdict(set)
    for number, loop in enumerate(loops):
        for node in loop.streamed:
            members[node].add(number)
        for node in loop.computed:
            computed[node].add(number)
    return members, computed


def _readers(
    node: Node,
    its_users: Sequence[Node],
    members: Mapping[Node, set[int]],
    computed: Mapping[Node, set[int]],
) -> int:
    """How often the whole value is read: by users outside loops, and by loops that slice it."""
    none = frozenset[int]()
    outside = sum(user not in computed for user in its_users)
    inside = none.union(*(computed.get(user, none) for user in its_users))
    return outside + len(inside - members.get(node, none))


def _chunk_cost(loop: LoopPlan, used_by: Mapping[Node, Sequence[Node]], device: Device) -> int:
    """Of each chunk, whatever its size: of reading, starting kernels, and combining."""
    kernels = sum(
        node in loop.sinks or is_stored(node, used_by[node]) for node in loop.computations
    )
    return kernels * device.launch + read_whole(loop, device) + combining(loop)
