"""Columns of a matrix that each step of a loop would read anew: taken out once, before the loop."""

from __future__ import annotations

from tf_memsafe.hlo.node import Node, Region, make
from tf_memsafe.hlo.order import topological
from tf_memsafe.rewrite.rule import Outcome, rule


@rule("while")
def columns_once(node: Node) -> Outcome:
    """while(..., f(y[:, 0])) => z = y[:, 0]; while(..., f(z)), for a y from outside the loop

    What lies apart in memory is read one by one; in a copy of its own XLA reads it in vectors.
    Exact.
    """
    condition, body = node.regions
    columns = _columns(body)
    if not columns:
        return None
    regions = condition, Region(body.parameters, body.results, _used(body, columns))
    return make(node.op, node.operands, node.type, node.attributes, regions, node.source)


def _columns(body: Region) -> list[Node]:
    """Slices of captured values that do not take the last axis whole."""
    captures = {*body.captures}
    return [
        node
        for node in topological(body.results, {*body.parameters, *captures})
        if node.name == "slice"
        and node.operands[0] in captures
        and node.shape[-1:] < node.operands[0].shape[-1:]
    ]


def _used(body: Region, columns: list[Node]) -> tuple[Node, ...]:
    """What the body captures once it captures columns too."""
    outer = dict.fromkeys((*body.captures, *columns))
    inside = topological(body.results, {*body.parameters, *outer})
    used = {dependency for node in inside for dependency in node.dependencies}
    return tuple(value for value in outer if value in used or value in body.results)
