"""Drops the ops that change nothing: TensorFlow's XLA bridge makes many of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node, Region, make
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.rebuild import remake

SAME_IF_SAME_TYPE = {"reshape", "convert", "slice", "broadcast_in_dim", "pad"}
"""Ops that return their operand when they return its type, if their attributes agree."""


def simplify(graph: Graph) -> Graph:
    """The graph without views of a value as itself, and with one reshape in place of several."""
    return Graph(graph.parameters, _simplified(graph.outputs))


def _simplified(results: Iterable[Node], known: Sequence[Node] = ()) -> tuple[Node, ...]:
    new: dict[Node, Node] = {node: node for node in known}
    for node in topological(results, new):
        new[node] = _simpler(_inside(remake(node, new)))
    return tuple(new[result] for result in results)


def _inside(node: Node) -> Node:
    """The node with its regions simplified."""
    regions = tuple(_simplified_region(region) for region in node.regions)
    if regions == node.regions:
        return node
    return make(node.op, node.operands, node.type, node.attributes, regions, node.source)


def _simplified_region(region: Region) -> Region:
    known = (*region.parameters, *region.captures)
    return Region(region.parameters, _simplified(region.results, known), region.captures)


def _simpler(node: Node) -> Node:
    if node.name == "transpose" and node["permutation"] == tuple(range(node.tensor.rank)):
        return node.operands[0]
    if node.name in SAME_IF_SAME_TYPE and _keeps_everything(node):
        return node.operands[0]
    if node.name == "reshape" and node.operands[0].name == "reshape":
        return build.reshape(node.operands[0].operands[0], node.shape)
    return node


def _keeps_everything(node: Node) -> bool:
    if node.type != node.operands[0].type:
        return False
    if node.name == "broadcast_in_dim":
        return node["broadcast_dimensions"] == tuple(range(node.tensor.rank))
    if node.name == "pad":
        # Negative edges can make up for padding elsewhere: equal types are not enough.
        edges = ("edge_padding_low", "edge_padding_high", "interior_padding")
        return not any(any(node[edge]) for edge in edges)
    return True
