"""Drops the ops that change nothing: TensorFlow's XLA bridge makes many of them."""

from __future__ import annotations

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.rebuild import remake

SAME_IF_SAME_TYPE = {"reshape", "convert", "slice", "broadcast_in_dim", "pad"}
"""Ops that return their operand when they return its type, if their attributes agree."""


def simplify(graph: Graph) -> Graph:
    """The graph without views of a value as itself, and with one reshape in place of several."""
    new: dict[Node, Node] = {}
    for node in topological(graph.outputs):
        new[node] = _simpler(remake(node, new))
    return Graph(graph.parameters, tuple(new[output] for output in graph.outputs))


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
