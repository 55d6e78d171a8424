"""chain: matrix products in the order that takes least, found by dynamic programming on sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.rewrite.maths import dot, transpose
from tf_memsafe.rewrite.rule import Optimizer, Outcome, Skip, Uses, rule_with_uses

MOST_FACTORS = 200
"""Of one chain: planning takes time with the third power of their number."""

# --- planning: sizes alone ----------------------------------------------------------------------

Span = tuple[int, int]
"""The first and the last factor of a part of a chain."""

Order = int | tuple["Order", "Order"]
"""How a chain is multiplied: a factor's number, or two parts and their product."""


class Price(NamedTuple):
    """Multiplications, then elements of the largest intermediate: the first counts for more."""

    products: int
    largest: int


FREE = Price(0, 0)


def best_order(sizes: Sequence[int], there: frozenset[Span] = frozenset()) -> tuple[Price, Order]:
    """The cheapest order for factors of sizes[0] x sizes[1], sizes[1] x sizes[2], and so on.

    there: the parts whose product is computed anyway.
    """
    count = len(sizes) - 1
    products = [[0] * count for _ in range(count)]
    largest = [[0] * count for _ in range(count)]
    split = [[0] * count for _ in range(count)]
    for length in range(2, count + 1):
        for first in range(count - length + 1):
            last = first + length - 1
            outer = sizes[first] * sizes[last + 1]
            row = products[first]
            prices = [
                row[middle] + products[middle + 1][last] + outer * sizes[middle + 1]
                for middle in range(first, last)
            ]
            least = min(prices)
            peak, split[first][last] = min(
                (max(largest[first][middle], largest[middle + 1][last]), middle)
                for middle, price in enumerate(prices, first)
                if price == least
            )
            if (first, last) not in there:
                products[first][last], largest[first][last] = least, max(peak, outer)
    return Price(products[0][-1], largest[0][-1]), _order(split, (0, count - 1), there)


def _order(split: Sequence[Sequence[int]], span: Span, there: frozenset[Span]) -> Order:
    first, last = span
    if first == last:
        return first
    middle = split[first][last]
    return _order(split, (first, middle), there), _order(split, (middle + 1, last), there)


def span_of(order: Order) -> Span:
    if isinstance(order, int):
        return order, order
    return span_of(order[0])[0], span_of(order[1])[1]


def price_of(order: Order, sizes: Sequence[int], there: frozenset[Span] = frozenset()) -> Price:
    """What an order costs."""
    first, last = span_of(order)
    if isinstance(order, int) or (first, last) in there:
        return FREE
    left, right = (price_of(part, sizes, there) for part in order)
    outer = sizes[first] * sizes[last + 1]
    inner = sizes[span_of(order[0])[1] + 1]
    return Price(
        left.products + right.products + outer * inner, max(left.largest, right.largest, outer)
    )


# --- reading a chain out of the graph -----------------------------------------------------------


@dataclass(frozen=True)
class Matrix:
    """A node seen as a matrix, or as a stack of them: which of its axes are rows and columns."""

    node: Node
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    batch: tuple[int, ...]

    def size(self, axes: Sequence[int]) -> int:
        return prod(self.node.shape[axis] for axis in axes)

    @property
    def transposed(self) -> Matrix:
        return Matrix(self.node, self.columns, self.rows, self.batch)

    def factors(self) -> tuple[Matrix, Matrix] | None:
        """The two matrices that this one is the product of, if it is one."""
        if self.node.name != "dot_general" or self.node.dtype != self.node.operands[0].dtype:
            return None
        left, right = self._free_axes()
        if ({*self.rows}, {*self.columns}) == (left, right):
            return self._factors()
        if ({*self.rows}, {*self.columns}) == (right, left):
            first, second = self.transposed._factors()
            return second.transposed, first.transposed
        return None

    def _axes(self) -> list[tuple[int | None, int | None]]:
        ranks = (operand.tensor.rank for operand in self.node.operands)
        return self.node["dot_dimension_numbers"].result_axes(*ranks)

    def _free_axes(self) -> tuple[set[int], set[int]]:
        """The axes of the product that come from the left operand alone, and from the right."""
        axes = list(enumerate(self._axes()))
        left = {axis for axis, (lhs, rhs) in axes if rhs is None and lhs is not None}
        right = {axis for axis, (lhs, rhs) in axes if lhs is None and rhs is not None}
        return left, right

    def _factors(self) -> tuple[Matrix, Matrix]:
        numbers: DotNumbers = self.node["dot_dimension_numbers"]
        axes = self._axes()

        def origin(of: Sequence[int], side: int) -> tuple[int, ...]:
            return tuple(found for axis in of if (found := axes[axis][side]) is not None)

        lhs, rhs = self.node.operands
        left = Matrix(lhs, origin(self.rows, 0), numbers.lhs_contracting, origin(self.batch, 0))
        right = Matrix(rhs, numbers.rhs_contracting, origin(self.columns, 1), origin(self.batch, 1))
        return left, right


def as_product(node: Node) -> Matrix:
    """A dot_general as the matrix that it is: left free axes by right free axes."""
    numbers: DotNumbers = node["dot_dimension_numbers"]
    batch = len(numbers.lhs_batching)
    right = batch + len(numbers.free_axes(0, node.operands[0].tensor.rank))
    axes = tuple(range(node.tensor.rank))
    return Matrix(node, axes[batch:right], axes[right:], axes[:batch])


def multiply(left: Matrix, right: Matrix, like: Node) -> Matrix:
    """The product of two matrices, with the precision of the product `like`."""
    numbers = DotNumbers(left.batch, right.batch, left.columns, right.rows)
    product = as_product(dot(left.node, right.node, numbers, like["precision_config"]))
    # The free axes of each operand come in ascending order.
    rows = [sorted(left.rows).index(axis) + product.rows[0] for axis in left.rows]
    columns = [sorted(right.columns).index(axis) + product.columns[0] for axis in right.columns]
    return Matrix(product.node, tuple(rows), tuple(columns), product.batch)


class Chain:
    """The factors of a product of products, the user's order, and the parts that others use too."""

    def __init__(self, root: Node, uses: Uses) -> None:
        self._uses = uses
        self._root = root
        self.factors: list[Matrix] = []
        self.there: dict[Span, Matrix] = {}
        self.order = self._open(as_product(root))

    def _open(self, matrix: Matrix, there: bool = False, depth: int = 0) -> Order:
        """Adds the factors of a matrix; returns the order in which they are multiplied.

        there: whether the matrix is a part of a product that others use too.
        """
        factors = matrix.factors() if self._same_kind(matrix.node) else None
        if factors is None or depth == MOST_FACTORS:
            self.factors.append(matrix)
            return len(self.factors) - 1
        there |= depth > 0 and self._uses.only_user(matrix.node) is None
        order = (self._open(factors[0], there, depth + 1), self._open(factors[1], there, depth + 1))
        if there:
            self.there[span_of(order)] = matrix
        return order

    def _same_kind(self, node: Node) -> bool:
        alike = node.name == "dot_general" and node.dtype == self._root.dtype
        return alike and node["precision_config"] == self._root["precision_config"]

    @property
    def sizes(self) -> list[int]:
        """The rows of each factor, and the columns of the last."""
        last = self.factors[-1]
        return [*(f.size(f.rows) for f in self.factors), last.size(last.columns)]

    def product(self, order: Order) -> Matrix:
        """The nodes that multiply in an order."""
        if isinstance(order, int):
            return self.factors[order]
        if span_of(order) in self.there:
            return self.there[span_of(order)]
        return multiply(self.product(order[0]), self.product(order[1]), self._root)


# --- the rule -----------------------------------------------------------------------------------


@rule_with_uses("dot_general")
def reassociate(node: Node, uses: Uses) -> Outcome:
    """(A @ B) @ v => A @ (B @ v), and any other chain in the order that takes least

    Exact but for rounding, and for what overflows in one order and not in the other. Products
    that are used elsewhere too are taken as computed already; ties keep the user's order.
    """
    if _is_part_of_a_chain(node, uses):
        return None
    chain = Chain(node, uses)
    if len(chain.factors) < 3:
        return None
    if node.dtype == "f16":
        return Skip("an f16 may overflow in one order and not in the other")
    if len(chain.factors) > MOST_FACTORS:
        return Skip(f"a chain of {len(chain.factors)}, more than {MOST_FACTORS}, is not planned")
    sizes, there = chain.sizes, frozenset(chain.there)
    price, order = best_order(sizes, there)
    if price >= price_of(chain.order, sizes, there):
        return Skip(f"no order of the {len(chain.factors)} factors takes less")
    return _as_laid_out(chain.product(order))


def _is_part_of_a_chain(node: Node, uses: Uses) -> bool:
    """Whether the chain that this product belongs to goes on in the one user that it has."""
    user = uses.only_user(node)
    if user is None or user.name != "dot_general":
        return False
    same = user.dtype == node.dtype and user["precision_config"] == node["precision_config"]
    return same and any(
        factor.node.name == "dot_general" and factor.node.type == node.type and factor.factors()
        for factor in as_product(user).factors() or ()
    )


def _as_laid_out(matrix: Matrix) -> Node:
    """The node with its axes in order: batch, rows, columns."""
    return transpose(matrix.node, (*matrix.batch, *matrix.rows, *matrix.columns))


CHAIN = Optimizer("chain", (reassociate,))
