"""Long sums of what is computed for all pairs: a few parts of them side by side.

A matrix product of values that are computed for it has them stored first, and a sum that is
computed with them adds one after the other. A sum of parts is computed in vectors with the values
themselves, in one pass, and what is stored and summed is as large as one part.
"""

from __future__ import annotations

from functools import reduce
from math import prod

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.rewrite.elements import Elements, is_large_of_small, leaves
from tf_memsafe.rewrite.maths import (
    dot,
    filled,
    is_plain_product,
    is_sum,
    repeated_value,
    spread,
    sum_over,
)
from tf_memsafe.rewrite.readers import readers
from tf_memsafe.rewrite.rule import Outcome, Skip, Uses, rule_with_uses

PARTS = 10

SHORTEST_PART = 500
"""Elements of a part from which it is faster."""

MOST_LEAVES = 20
"""Values that it is computed of, two for each coordinate of distances. XLA's compiler gives up on
vectors where there are many more."""


@rule_with_uses("dot_general")
def product_in_parts(node: Node, uses: Uses) -> Outcome:
    """f(x, y) @ v => (f(x, y[:n]) * v[:n] + f(x, y[n:]) * v[n:] + ...) @ 1, for one column v

    For x and y that are much smaller than f(x, y). Exact but for rounding.
    """
    if not is_plain_product(node):
        return None
    for side, values in enumerate(node.operands):
        if _is_summed(values) and _is_column(node, 1 - side):
            terms = _products(node, side)
            refusal = _refusal(values, terms, uses)
            return refusal or build.reshape(_in_parts(terms), node.shape)
    return None


@rule_with_uses("reduce")
def sum_in_parts(node: Node, uses: Uses) -> Outcome:
    """sum(f(x, y), -1) => (f(x, y[:n]) + f(x, y[n:]) + ...) @ 1, for x and y that are much smaller

    Exact but for rounding.
    """
    terms = node.operands[0]
    if not is_sum(node) or node["dimensions"] != (terms.tensor.rank - 1,) or not _is_summed(terms):
        return None
    return _refusal(terms, terms, uses) or _in_parts(terms)


def _is_summed(node: Node) -> bool:
    """Whether a value could be summed along its last axis in parts."""
    return is_large_of_small(node) and node.shape[-1] >= PARTS * SHORTEST_PART


def _is_column(product: Node, side: int) -> bool:
    """Whether an operand has contracted and batch axes alone, which are the other's last and first.

    One value that is repeated is none: the product with it is a sum, which may be of parts already.
    """
    numbers: DotNumbers = product["dot_dimension_numbers"]
    operand, other = product.operands[side], product.operands[1 - side]
    free = numbers.free_axes(side, operand.tensor.rank)
    batching, contracting = numbers[1 - side], numbers[(1 - side) + 2]
    in_order = batching == (*range(len(batching)),) and contracting == (other.tensor.rank - 1,)
    single = prod(operand.shape[axis] for axis in free) == 1
    return in_order and single and repeated_value(operand) is None


def _products(product: Node, side: int) -> Node:
    """What the product adds up, with the axes of its operand `side`."""
    numbers: DotNumbers = product["dot_dimension_numbers"]
    values, column = product.operands[side], product.operands[1 - side]
    pairs = {pair[1 - side]: pair[side] for pair in numbers.shared_axes()}
    axes = sorted(pairs)
    weights = build.reshape(column, [column.shape[axis] for axis in axes])
    return build.multiply(values, spread(weights, [pairs[axis] for axis in axes], values.shape))


def _refusal(values: Node, terms: Node, uses: Uses) -> Skip | None:
    """Why values that are summed are not to be computed with the terms of their sum."""
    count = len(leaves(terms))
    if count > MOST_LEAVES:
        return Skip(f"it is computed of {count} values, too many to be read in vectors")
    if len(readers(values, uses)) > 1:
        return Skip("it would be computed again for each of its users")
    return None


def _in_parts(terms: Node) -> Node:
    """The sum along the last axis; of what is over, too."""
    axis, length = terms.tensor.rank - 1, terms.shape[-1]
    width = length // PARTS
    starts = range(0, PARTS * width, width)
    total = reduce(build.add, (Elements(axis, start, start + width).of(terms) for start in starts))
    result = _sum(total)
    if PARTS * width == length:
        return result
    return build.add(result, sum_over(Elements(axis, PARTS * width, length).of(terms), [axis]))


def _sum(total: Node) -> Node:
    """Along the last axis, by a matrix product: that is stored first, and added up in vectors."""
    last = total.tensor.rank - 1
    ones = filled(1, total, total.shape[-1:])
    return dot(total, ones, DotNumbers((), (), (last,), (0,)))
