"""distance, the other way round: the product form of distances of points of few coordinates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.hlo.ops.reduction import kept_axes
from tf_memsafe.rewrite.distance_size import difference_refusal
from tf_memsafe.rewrite.maths import (
    filled,
    is_sum,
    is_widening,
    repeated_value,
    spread,
    sum_over,
)
from tf_memsafe.rewrite.product import read_factor
from tf_memsafe.rewrite.rule import Outcome, Skip, Uses, rule_with_uses

# --- reading ------------------------------------------------------------------------------------


class Term(NamedTuple):
    """A node that is added up, its factor, and the nodes on the way to it, itself included."""

    weight: float
    node: Node
    path: tuple[Node, ...]


class Points(NamedTuple):
    """Points in a product or a sum of squares, the factor of that, and what their axes become.

    summed: the axes of the coordinates. places: axes of the distances, and of the points.
    """

    weight: float
    node: Node
    summed: frozenset[int]
    places: frozenset[tuple[int, int]]


LONGEST_PATH = 8
"""Nodes between a sum and one of its three terms, additions and constant factors."""


def _terms(node: Node, weight: float = 1, path: tuple[Node, ...] = ()) -> Iterator[Term]:
    """What a sum adds up, constant factors taken apart."""
    factor, inner = _unscaled(node)
    if len(path) == LONGEST_PATH:
        yield Term(weight, node, path)
    elif node.name in ("add", "subtract"):
        x, y = node.operands
        yield from _terms(x, weight, (*path, x))
        yield from _terms(y, weight if node.name == "add" else -weight, (*path, y))
    elif inner is not node:
        yield from _terms(inner, weight * factor, (*path, inner))
    else:
        yield Term(weight, node, path)


def _unscaled(node: Node) -> tuple[float, Node]:
    """A constant factor, and what it is a factor of: 1 and the node itself if there is none."""
    if node.name == "negate":
        return -1, node.operands[0]
    if node.name in ("multiply", "divide"):
        x, y = node.operands
        if isinstance(value := repeated_value(y), float) and value:
            return (value if node.name == "multiply" else 1 / value), x
        if node.name == "multiply" and isinstance(value := repeated_value(x), float):
            return value, y
    return 1, node


def _sides(term: Term) -> tuple[Points, Points]:
    """The points that a product is of, as their sums of squares would count them."""
    numbers: DotNumbers = term.node["dot_dimension_numbers"]
    (x_factor, x), (y_factor, y) = map(_unscaled, term.node.operands)
    weight = -term.weight * x_factor * y_factor / 2
    places: tuple[set[tuple[int, int]], ...] = (set(), set())
    for place, pair in enumerate(numbers.result_axes(x.tensor.rank, y.tensor.rank)):
        for side, axis in enumerate(pair):
            if axis is not None:
                places[side].add((place, axis))
    return (
        Points(weight, _narrow(x), frozenset(numbers.lhs_contracting), frozenset(places[0])),
        Points(weight, _narrow(y), frozenset(numbers.rhs_contracting), frozenset(places[1])),
    )


def _norm(term: Term) -> Points | None:
    """The points that a sum of squares is of."""
    total = read_factor(term.node)
    factor, node = _unscaled(total.node)
    squares = _squared(node)
    if squares is None:
        return None
    x, kept, summed = squares
    places = frozenset(zip(total.axes, kept, strict=True))
    return Points(term.weight * factor, _narrow(x), frozenset(summed), places)


def _squared(node: Node) -> tuple[Node, Sequence[int], Sequence[int]] | None:
    """What a sum of squares is of, and which of its axes are kept and which are summed."""
    if node.name == "reduce" and is_sum(node) and node.operands[0].name == "multiply":
        x, y = node.operands[0].operands
        return (x, kept_axes(node), node["dimensions"]) if x is y else None
    if node.name != "dot_general" or node.operands[0] is not node.operands[1]:
        return None
    numbers: DotNumbers = node["dot_dimension_numbers"]
    x, kept, summed = node.operands[0], numbers.lhs_batching, numbers.lhs_contracting
    rows = numbers[::2] == numbers[1::2] and len(kept) + len(summed) == x.tensor.rank
    return (x, kept, summed) if rows else None


def _narrow(node: Node) -> Node:
    """What a conversion that loses nothing converts."""
    exact = node.name == "convert" and is_widening(node.operands[0].dtype, node.dtype)
    return node.operands[0] if exact else node


# --- the rule -----------------------------------------------------------------------------------


@rule_with_uses("add", "subtract")
def product_form(node: Node, uses: Uses) -> Outcome:
    """|x|**2 + |y|**2 - 2 x @ transpose(y) => sum((x[:, None] - y[None])**2, -1), in few dimensions

    Also negated or scaled, and with the terms in any order. The differences are more exact: where
    points are much closer to each other than to 0, the product form loses the digits that matter.
    What was a little below 0 by rounding is not, so that its square root is no longer NaN; points
    that are infinite in different coordinates are inf apart, where inf - inf gave NaN.
    """
    terms = list(_terms(node))
    products = [term for term in terms if _is_product(term.node)]
    if len(terms) != 3 or len(products) != 1:
        return None
    x, y = _sides(products[0])
    norms = [_norm(term) for term in terms if term is not products[0]]
    if Counter(norms) != Counter((x, y)):
        return None
    dimension = prod(x.node.shape[axis] for axis in x.summed)
    if skip := difference_refusal(node.dtype, dimension):
        return skip
    if any(uses.only_user(passed) is None for passed in products[0].path):
        return Skip("something else uses the product, or the sum on the way to it")
    return _sum_of_squares(node, products[0].node["dot_dimension_numbers"], x, y)


def _is_product(node: Node) -> bool:
    """Whether it is a product of two matrices, and not of rows with themselves."""
    if node.name != "dot_general":
        return False
    numbers: DotNumbers = node["dot_dimension_numbers"]
    ranks = (operand.tensor.rank for operand in node.operands)
    return all(numbers.free_axes(side, rank) for side, rank in enumerate(ranks))


def _sum_of_squares(node: Node, numbers: DotNumbers, x: Points, y: Points) -> Node:
    rank = node.tensor.rank
    sizes = [x.node.shape[axis] for axis in numbers.lhs_contracting]
    shape = (*node.shape, *sizes)
    sides = []
    for points, summed in zip((x, y), numbers[2:], strict=True):
        places = {axis: place for place, axis in points.places}
        places |= {axis: rank + position for position, axis in enumerate(summed)}
        into = [places[axis] for axis in range(len(places))]
        sides.append(spread(build.convert(points.node, node.dtype), into, shape))
    difference = build.subtract(*sides)
    total = sum_over(build.multiply(difference, difference), range(rank, len(shape)))
    if x.weight == 1:
        return total
    return build.multiply(filled(x.weight, total, total.shape), total)
