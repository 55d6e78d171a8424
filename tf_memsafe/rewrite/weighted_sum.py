"""The weighted sum of a product's columns, where the product of the weights is there already."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.rewrite.maths import is_plain_product, is_sum, sum_over, transpose
from tf_memsafe.rewrite.rule import Outcome, Skip, Uses, rule_with_uses


class _Pair(NamedTuple):
    """A product x @ y whose columns are summed, and what they are weighted by."""

    product: Node
    weights: Node


@rule_with_uses("reduce")
def weighted_sum_of_columns(node: Node, uses: Uses) -> Outcome:
    """sum((x @ y) * w, -1) => sum(x * (w @ transpose(y)), -1), where that product is used anyway

    The gradient of softmax(scores) @ values has it, for each row of scores (Dao et al., 2022,
    "FlashAttention", appendix B). Exact but for rounding, and for what overflows in one order and
    not in the other.
    """
    scaled = node.operands[0]
    if not is_sum(node) or scaled.name != "multiply":
        return None
    found = [p for p in _pairs(scaled) if _summed(p.product) == set(node["dimensions"])]
    if not found:
        return None
    for product, weights in found:
        for user in uses.users.get(weights, ()):
            if _is_transposed_product(user, product, weights):
                smaller = user.tensor.size < product.tensor.size
                return _sum(product, user) if smaller else Skip("that product is no smaller")
    return Skip("no other product of the weights is there")


def _pairs(scaled: Node) -> Iterator[_Pair]:
    for product, weights in (scaled.operands, scaled.operands[::-1]):
        if is_plain_product(product) and product.dtype in ("f32", "f64"):
            yield _Pair(product, weights)


def _summed(product: Node) -> set[int]:
    """The axes of a product that are free axes of its second operand."""
    axes = _numbers(product).result_axes(*(x.tensor.rank for x in product.operands))
    return {axis for axis, (left, _) in enumerate(axes) if left is None}


def _numbers(product: Node) -> DotNumbers:
    numbers: DotNumbers = product["dot_dimension_numbers"]
    return numbers


def _is_transposed_product(node: Node, product: Node, weights: Node) -> bool:
    """Whether a node is w @ transpose(y), for the y of x @ y."""
    numbers, (_, y) = _numbers(product), product.operands
    if not is_plain_product(node) or node.operands != (weights, y) or node.dtype != product.dtype:
        return False
    wanted = DotNumbers(
        tuple(range(len(numbers.lhs_batching))),
        numbers.rhs_batching,
        tuple(sorted(_summed(product))),
        numbers.free_axes(1, y.tensor.rank),
    )
    return _numbers(node) == wanted


def _sum(product: Node, weighted: Node) -> Node:
    """The sum of x, with its axes in the order of those of w @ transpose(y), times that."""
    numbers, x = _numbers(product), product.operands[0]
    pairs = dict(zip(numbers.rhs_contracting, numbers.lhs_contracting, strict=True))
    inner = [pairs[axis] for axis in sorted(pairs)]  # the order of y's axes
    order = [*numbers.lhs_batching, *numbers.free_axes(0, x.tensor.rank), *inner]
    aligned = transpose(x, order)
    axes = range(len(order) - len(inner), len(order))
    return sum_over(build.multiply(aligned, weighted), tuple(axes))
