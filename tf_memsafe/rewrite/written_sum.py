"""Sums over a few values that are computed for all pairs: written out, term by term.

XLA's CPU back end hands a sum to a library (YNNPACK) and stores what is summed for it, or reads it
one by one: for the L1 distances of points in 100 dimensions, 100 times as much as the distances. A
sum that is written out is computed in one pass with what it is made of and with what uses it.
"""

from __future__ import annotations

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.rewrite.maths import (
    ELEMENTWISE,
    filled,
    is_sum,
    repeated_value,
    slice_axis,
    with_shape,
)
from tf_memsafe.rewrite.readers import readers
from tf_memsafe.rewrite.rule import Outcome, Skip, Uses, rule_with_uses

MOST_TERMS = 128
"""That are written out: the time that XLA takes to compile them grows with their number."""

FEWEST_ELEMENTS = 100_000
"""Of what is summed. Fewer stay in the cache."""

LEAST_REPEATS = 4
"""How many times larger what is summed is to be than what it is computed from."""

DTYPES = {"f32", "f64"}


@rule_with_uses("reduce")
def written_sum(node: Node, uses: Uses) -> Outcome:
    """sum(f(x, y), -1) => f(x[0], y[0]) + f(x[1], y[1]) + ..., for x and y that are much smaller

    Not where XLA would compute it again for each of several users. Exact but for rounding, which is
    that of adding one after the other, and for the sign of 0.
    """
    if not is_sum(node) or node.dtype not in DTYPES:
        return None
    summed = node.operands[0]
    if summed.tensor.size < FEWEST_ELEMENTS:
        return None
    axis, *more = node["dimensions"]
    if more or not _is_computed(summed) or summed.shape[axis] < 2:
        return None
    if LEAST_REPEATS * sum(leaf.tensor.size for leaf in _leaves(summed)) > summed.tensor.size:
        return None
    if summed.shape[axis] > MOST_TERMS:
        return Skip(f"{summed.shape[axis]} terms take long to compile")
    if len(readers(node, uses)) > 1:
        return Skip("its terms would be computed again for each of its users")
    total = _term(summed, axis, 0, {})
    for index in range(1, summed.shape[axis]):
        total = build.add(total, _term(summed, axis, index, {}))
    return total


def _is_computed(node: Node) -> bool:
    """Whether each element is computed from the same elements of the operands."""
    return node.name in ELEMENTWISE and bool(node.operands)


def _leaves(node: Node) -> set[Node]:
    """The values from which all others are computed, or repeated; without constants."""
    found: set[Node] = set()
    seen: set[Node] = set()
    pending = [node]
    while pending:
        value = pending.pop()
        if value in seen or repeated_value(value) is not None:
            continue
        seen.add(value)
        if _is_computed(value):
            pending += value.operands
        else:
            found.add(value.operands[0] if value.name == "broadcast_in_dim" else value)
    return found


def _term(node: Node, axis: int, index: int, known: dict[Node, Node]) -> Node:
    """The elements at one place of an axis, which is gone."""
    if node not in known:
        known[node] = _new_term(node, axis, index, known)
    return known[node]


def _new_term(node: Node, axis: int, index: int, known: dict[Node, Node]) -> Node:
    shape = [size for other, size in enumerate(node.shape) if other != axis]
    value = repeated_value(node)
    if value is not None:
        return filled(value, node, shape)
    if _is_computed(node):
        operands = [
            _term(operand, axis, index, known) if operand.shape else operand
            for operand in node.operands
        ]
        return with_shape(node, operands, shape)
    if node.name == "broadcast_in_dim":
        return _repeated_term(node, axis, index, shape)
    return _without(node, axis, index)


def _repeated_term(node: Node, axis: int, index: int, shape: list[int]) -> Node:
    (operand,) = node.operands
    places: list[int] = list(node["broadcast_dimensions"])
    if axis in places:
        own = places.index(axis)
        operand = _without(operand, own, min(index, operand.shape[own] - 1))
        places.pop(own)
    return build.broadcast(operand, shape, [place - (place > axis) for place in places])


def _without(node: Node, axis: int, index: int) -> Node:
    """A slice of one element along an axis, without the axis."""
    taken = slice_axis(node, axis, index, index + 1)
    return build.reshape(taken, [size for other, size in enumerate(node.shape) if other != axis])
