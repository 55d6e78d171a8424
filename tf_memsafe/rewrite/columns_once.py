"""Columns of a matrix that each step of a loop would read anew: taken out once, before the loop."""

from __future__ import annotations

from tf_memsafe.hlo.node import Node, Region, make
from tf_memsafe.hlo.order import topological
from tf_memsafe.rewrite.rule import Outcome, rule


@rule("while")
def columns_once(node: Node) -> Outcome:
    """while(..., f(y[:, 0])) => z = y[:, 0]; while(..., f(z)), for a y from outside the loop

    The same for a transposed y. What lies apart in memory is read one by one; in a copy of its own
    XLA reads it in vectors. Exact.
    """
    condition, body = node.regions
    columns = _columns(body)
    if not columns:
        return None
    regions = condition, Region(body.parameters, body.results, _used(body, columns))
    return make(node.op, node.operands, node.type, node.attributes, regions, node.source)


def _columns(body: Region) -> list[Node]:
    """Views of captured values whose elements lie apart in memory.

    Not what a matrix product reads: it takes its operands in any order.
    """
    captures = {*body.captures}
    inside = topological(body.results, {*body.parameters, *captures})
    multiplied = {x for node in inside if node.name == "dot_general" for x in node.operands}
    return [
        node
        for node in inside
        if (_is_part_of_rows(node) or (node.name == "transpose" and node not in multiplied))
        and _is_view(node, captures)
    ]


def _is_part_of_rows(node: Node) -> bool:
    """Whether it is a slice that does not take the last axis whole."""
    return node.name == "slice" and node.shape[-1:] < node.operands[0].shape[-1:]


def _is_view(node: Node, captures: set[Node]) -> bool:
    """Whether a node is a captured value, but for its shape and what of it is left out."""
    (x,) = node.operands
    while x.name in ("reshape", "slice") and x not in captures:
        (x,) = x.operands
    return x in captures


def _used(body: Region, columns: list[Node]) -> tuple[Node, ...]:
    """What the body captures once it captures columns too."""
    outer = dict.fromkeys((*body.captures, *columns))
    inside = topological(body.results, {*body.parameters, *outer})
    used = {dependency for node in inside for dependency in node.dependencies}
    return tuple(value for value in outer if value in used or value in body.results)
