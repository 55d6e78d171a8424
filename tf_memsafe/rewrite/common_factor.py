"""Sums of matrix products that have a factor in common: one product instead of two."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import combinations
from typing import NamedTuple

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.rewrite.maths import VIEWS, dot, is_plain_product, transpose
from tf_memsafe.rewrite.rule import Outcome, Skip, Uses, rule_with_uses

SCALES = {"divide", "multiply", "negate"}
"""Ops through which the planner of chains sees a product."""


class _Product(NamedTuple):
    """A product seen from one of its operands.

    side: the place, 0 or 1, of the other operand, which is `factor`.
    """

    node: Node
    side: int

    @property
    def common(self) -> Node:
        return self.node.operands[1 - self.side]

    @property
    def factor(self) -> Node:
        return self.node.operands[self.side]

    @property
    def numbers(self) -> DotNumbers:
        numbers: DotNumbers = self.node["dot_dimension_numbers"]
        return numbers

    def shared(self) -> list[set[int]]:
        """The common operand's batch axes, and those that are summed over."""
        return [{*self.numbers[1 - self.side]}, {*self.numbers[3 - self.side]}]

    def axes(self) -> list[int]:
        """The factor's axes: batch and contracted ones in the order of the common operand's."""
        batch, inner = (
            [own for _, own in sorted(zip(common, factor, strict=True))]
            for factor, common in (
                (self.numbers[self.side], self.numbers[1 - self.side]),
                (self.numbers[self.side + 2], self.numbers[3 - self.side]),
            )
        )
        return [*batch, *self.numbers.free_axes(self.side, self.factor.tensor.rank), *inner]


@rule_with_uses("add")
def common_factor(node: Node, uses: Uses) -> Outcome:
    """x @ z + y @ z => (x + y) @ z, for x and y that are no larger than the products

    The gradient of z @ transpose(z) is such a sum, with a y that is x transposed. Exact but for
    rounding, and for what overflows in one order and not in the other.
    """
    terms = _terms(node, uses)
    reason = ""
    for first, second in combinations([each for term in terms for each in _seen(term)], 2):
        if not _alike(first, second):
            continue
        reason = _objection(first, second, uses)
        if not reason:
            both = {first.node, second.node}
            others = [term for term in terms if term not in both]
            return reduce(build.add, [_merged(first, second), *others])
    return Skip(reason) if reason else None


def _terms(node: Node, uses: Uses) -> list[Node]:
    """What a sum adds up, through the sums that it alone uses."""
    found = []
    for operand in node.operands:
        inner = operand.name == "add" and uses.only_user(operand) is not None
        found += _terms(operand, uses) if inner else [operand]
    return found


def _seen(term: Node) -> Iterator[_Product]:
    """A product from both sides; nothing of what is none."""
    if is_plain_product(term) and term.dtype in ("f32", "f64"):
        yield _Product(term, 0)
        yield _Product(term, 1)


def _alike(first: _Product, second: _Product) -> bool:
    """Whether both multiply and sum along the same axes of the same operand, in the same place."""
    same = first.side == second.side and first.common is second.common
    return same and first.node is not second.node and first.shared() == second.shared()


def _objection(first: _Product, second: _Product, uses: Uses) -> str:
    if first.numbers[1 - first.side] != second.numbers[1 - second.side]:
        return "their batch axes are in different orders"
    if first.factor.tensor.size > first.node.tensor.size:
        return "the sum of the other factors is larger than the products"
    if any(uses.only_user(product.node) is None for product in (first, second)):
        return "one of the products is used elsewhere, too"
    if any(_is_of_chain(product.factor) for product in (first, second)):
        return "one is a chain of products, which may have a better order"
    return ""


def _is_of_chain(factor: Node) -> bool:
    if factor.name in VIEWS | SCALES:
        return any(map(_is_of_chain, factor.operands))
    return factor.name == "dot_general"


def _merged(first: _Product, second: _Product) -> Node:
    """The product of the common operand and the sum of the others, laid out as the first is."""
    places = dict(zip(first.axes(), second.axes(), strict=True))
    turned = transpose(second.factor, [places[axis] for axis in range(len(places))])
    operands = [first.common, first.common]
    operands[first.side] = build.add(first.factor, turned)
    return dot(operands[0], operands[1], first.numbers)
