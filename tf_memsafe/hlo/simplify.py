"""Drops the ops that change nothing: TensorFlow's XLA bridge makes many of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node, Region, make
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.rebuild import remake

MAY_CHANGE_NOTHING = frozenset(
    (
        "reshape",
        "convert",
        "slice",
        "dynamic_slice",
        "concatenate",
        "broadcast_in_dim",
        "transpose",
        "pad",
        "reverse",
    )
)
"""Ops that return their first operand, if it has the result's type and their attributes agree."""


def simplify(graph: Graph) -> Graph:
    """The graph without views of a value as itself, and with one reshape in place of several."""
    return Graph(graph.parameters, _simplified(graph.outputs))


def unchanged(node: Node) -> Node | None:
    """The operand that the node shows as it is; None if it may differ in anything."""
    if node.name not in MAY_CHANGE_NOTHING or node.type != node.operands[0].type:
        return None
    return node.operands[0] if _keeps_places(node) else None


def one_reshape(node: Node) -> Node | None:
    """One reshape in place of two; None for any other node."""
    if node.name != "reshape" or node.operands[0].name != "reshape":
        return None
    return build.reshape(node.operands[0].operands[0], node.shape)


def _keeps_places(node: Node) -> bool:
    """Whether each element is where it was, in a result of the first operand's type."""
    if node.name == "transpose":
        return _in_order(node["permutation"])
    if node.name == "broadcast_in_dim":
        return _in_order(node["broadcast_dimensions"])
    if node.name == "reverse":
        return all(node.shape[axis] <= 1 for axis in node["dimensions"])
    if node.name == "pad":
        # Negative edges can make up for padding elsewhere: equal types are not enough.
        edges = ("edge_padding_low", "edge_padding_high", "interior_padding")
        return not any(any(node[edge]) for edge in edges)
    return True


def _in_order(axes: tuple[int, ...]) -> bool:
    return axes == tuple(range(len(axes)))


def _simplified(results: Iterable[Node], known: Sequence[Node] = ()) -> tuple[Node, ...]:
    new: dict[Node, Node] = {node: node for node in known}
    for node in topological(results, new):
        remade = _inside(remake(node, new))
        new[node] = unchanged(remade) or one_reshape(remade) or remade
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
