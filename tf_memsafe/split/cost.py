"""What a plan takes in time, roughly: it ranks plans that all fit."""

from __future__ import annotations

from collections.abc import Sequence

from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.order import topological, users
from tf_memsafe.split.arrange import LoopPlan
from tf_memsafe.split.liveness import is_stored

CACHE_BYTES = 8_000_000
"""A value that is not larger is taken to stay in the processor's cache until it is used."""

PRODUCT_SPEEDUP = 8
"""How many flops of a library call for matrix products take as long as one flop of a fused loop."""

PRODUCTS = {"dot_general", "convolution", "triangular_solve", "cholesky"}


def cost(graph: Graph, loops: Sequence[LoopPlan]) -> int:
    """Flops of all that is computed, as often as it is, and bytes that go through main memory.

    A flop of a fused loop and a byte of traffic take about the same time on current processors.
    """
    nodes = topological(graph.outputs)
    used_by = users(nodes)
    in_loops = {node for loop in loops for node in loop.streamed}
    sinks = {node for loop in loops for node in loop.sinks}
    total = sum(_work(node) for loop in loops for node in loop.computed)
    for node in nodes:
        if node in sinks or node not in in_loops:
            total += _traffic(node, used_by[node])
        if node not in sinks and node not in in_loops:
            total += _work(node)
    return total


def _work(node: Node) -> int:
    flops = node.op.flops(node)
    return flops // PRODUCT_SPEEDUP if node.name in PRODUCTS else flops


def _traffic(node: Node, its_users: Sequence[Node]) -> int:
    """Bytes of writing a value to main memory, and of reading it again for each of its users."""
    if node.type.bytes <= CACHE_BYTES or not is_stored(node, its_users):
        return 0
    return node.type.bytes * (1 + len(its_users))
