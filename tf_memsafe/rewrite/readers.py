"""What reads a value: where there is more than one, XLA computes it for each, or stores it."""

from __future__ import annotations

from tf_memsafe.hlo.node import Node
from tf_memsafe.rewrite.maths import ELEMENTWISE, VIEWS
from tf_memsafe.rewrite.rule import Uses

PARTIAL = {"dynamic_slice", "gather", "slice"}
"""Ops that read some elements of an operand: XLA computes those alone."""

COMPUTED = ELEMENTWISE | {"bitcast_convert"}
"""Ops of which each element is computed of the same elements of the operands: where its shape is
theirs, a bitcast is one."""


def readers(node: Node, uses: Uses) -> set[Node]:
    """What uses the whole value, or what is computed from it element by element."""
    found: set[Node] = set()
    seen = {node}
    pending = [node]
    while pending:
        value = pending.pop()
        found |= {value} & uses.results
        for user in uses.users.get(value, ()):
            if user in seen or user.name in PARTIAL:
                continue
            seen.add(user)
            if user.name in COMPUTED | VIEWS:
                pending.append(user)
            else:
                found.add(user)
    return found
