"""The same computation with some of its values replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tf_memsafe.hlo.node import Node, Region, make
from tf_memsafe.hlo.order import topological


def rebuild(roots: Iterable[Node], replaced: Mapping[Node, Node]) -> list[Node]:
    """`roots` with each node in `replaced` exchanged, and all that depends on those made anew."""
    roots, new = list(roots), dict(replaced)
    for node in topological(roots, new):
        new[node] = remake(node, new)
    return [new[root] for root in roots]


def remake(node: Node, new: Mapping[Node, Node]) -> Node:
    """The node with new operands and captures; itself if none of them changed."""
    operands = tuple(new.get(operand, operand) for operand in node.operands)
    regions = tuple(_recapture(region, new) for region in node.regions)
    if operands == node.operands and regions == node.regions:
        return node
    return make(node.op, operands, node.type, node.attributes, regions, node.source)


def _recapture(region: Region, new: Mapping[Node, Node]) -> Region:
    changed = {c: new[c] for c in region.captures if new.get(c, c) is not c}
    if not changed:
        return region
    known = {node: node for node in (*region.parameters, *region.captures)} | changed
    captures = tuple(dict.fromkeys(known[c] for c in region.captures))
    return Region(region.parameters, tuple(rebuild(region.results, known)), captures)
