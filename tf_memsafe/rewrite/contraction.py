"""contraction: a broadcast product that is summed is a matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate, pairwise

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.hlo.ops.reduction import kept_axes
from tf_memsafe.rewrite.common_factor import common_factor
from tf_memsafe.rewrite.maths import (
    ELEMENTWISE,
    filled,
    is_plain_product,
    is_sum,
    repeats,
    slice_axis,
    sum_over,
    with_shape,
)
from tf_memsafe.rewrite.product import Factor, Sum, read_factor, read_factors, sum_of, write_sum
from tf_memsafe.rewrite.rule import Optimizer, Outcome, Skip, rule
from tf_memsafe.rewrite.weighted_sum import weighted_sum_of_columns

SMALLEST_INNER_SIZE = 4
"""Of a matrix product. XLA's CPU back end runs smaller ones on one thread, 3 times slower than the
sum of a broadcast product (DESIGN, section 2)."""

PRODUCTS = ("multiply", "divide", "negate", "broadcast_in_dim")


@rule("reduce")
def sum_of_broadcast_product(node: Node) -> Outcome:
    """sum(x[:, None, :] * y[None, :, :], -1) => x @ transpose(y), with any axes and factors

    Exact but for rounding, and for what overflows in one order and not in the other. A factor that
    does not vary along a summed axis is multiplied after the sum, so that an infinite one gives an
    infinity where infinities of both signs, added up, gave NaN.
    """
    product = node.operands[0]
    if product.name == "convert":  # TensorFlow adds up half precision in f32
        product = product.operands[0]
    if not is_sum(node) or product.name not in PRODUCTS:
        return None
    factors = read_factors(product)
    if factors is None:
        return Skip("it has too many factors")
    total = sum_of(factors, product.shape, node["dimensions"])
    if total is None or total.largest >= product.tensor.size:
        return None
    if product.dtype in ("f16", "bf16") or product.dtype != node.dtype:
        return Skip(f"products of {product.dtype} are rounded before they are added up")
    return _refusal(total) or write_sum(total)


@rule("dot_general")
def product_of_broadcast_product(node: Node) -> Outcome:
    """(x[:, None, :] * y[None, :, :]) @ w => (x * w) @ transpose(y), with any axes and factors

    As einsum has it of operands that were broadcast before. Exact but for rounding and overflow, as
    the sum of a broadcast product is.
    """
    numbers: DotNumbers = node["dot_dimension_numbers"]
    if not is_plain_product(node) or all(operand.name not in PRODUCTS for operand in node.operands):
        return None
    contracted = [node.operands[0].shape[axis] for axis in numbers.lhs_contracting]
    shape = (*node.shape, *contracted)
    sides = [_factors(node, side, shape) for side in (0, 1)]
    if any(side is None for side in sides):
        return Skip("it has too many factors")
    spread = [
        operand.tensor.size
        for operand, factors in zip(node.operands, sides, strict=True)
        if factors and all(f.node.tensor.size < operand.tensor.size for f in factors)
    ]
    factors = [factor for side in sides for factor in side or ()]
    total = sum_of(factors, shape, range(len(node.shape), len(shape))) if spread else None
    if total is None or total.largest >= max(spread):
        return None
    if node.dtype in ("f16", "bf16"):
        return Skip(f"products of {node.dtype} are rounded before they are added up")
    return _refusal(total) or write_sum(total)


def _factors(product: Node, side: int, shape: Sequence[int]) -> list[Factor] | None:
    """What an operand of a product is the product of, along the product's axes and the summed."""
    numbers: DotNumbers = product["dot_dimension_numbers"]
    pairs = numbers.result_axes(*(operand.tensor.rank for operand in product.operands))
    places = {pair[side]: place for place, pair in enumerate(pairs)}
    places |= {axis: len(pairs) + n for n, axis in enumerate(numbers[side + 2])}
    operand = product.operands[side]
    return read_factors(operand, [places[axis] for axis in range(operand.tensor.rank)], shape)


def _refusal(total: Sum) -> Skip | None:
    if any(size < SMALLEST_INNER_SIZE for size in total.inner_sizes):
        small = min(total.inner_sizes)
        return Skip(f"an inner size of {small} is faster as a sum of a broadcast product")
    return None


# --- what stands between the sum and the product ------------------------------------------------


@rule("reduce")
def sum_of_masked(node: Node) -> Outcome:
    """sum(where(mask[:, :, None], x, 0), -1) => where(mask, sum(x, -1), 0)

    Exact: the mask has to be the same for all that is added up.
    """
    masked = node.operands[0]
    if not is_sum(node) or masked.name != "select":
        return None
    mask, *branches = masked.operands
    zeros = [repeats(branch, 0) for branch in branches]
    if sum(zeros) != 1:
        return None
    found = read_factor(mask) if mask.shape else Factor(mask, ())
    if {*found.axes} & {*node["dimensions"]}:
        x = branches[zeros.index(False)]
        product = x.name in PRODUCTS and read_factors(x)
        total = sum_of(product, x.shape, node["dimensions"]) if product else None
        if total is None or total.largest >= x.tensor.size:
            return None
        return Skip("a mask along what is summed may hide NaN or inf")
    kept = [axis for axis in range(masked.tensor.rank) if axis not in node["dimensions"]]
    mask = build.broadcast(found.node, node.shape, [kept.index(axis) for axis in found.axes])
    parts = [
        filled(0, node, node.shape) if zero else sum_over(branch, node["dimensions"])
        for branch, zero in zip(branches, zeros, strict=True)
    ]
    return build.emit("select", (mask, *parts))


MOST_PARTS = 8
"""Of a concatenation: each part is summed apart."""

DEEPEST = 8
"""Elementwise ops between a sum and the concatenations that it is of."""


@rule("reduce")
def sum_of_concatenation(node: Node) -> Outcome:
    """sum(concatenate(x, y), 0) => sum(x, 0) + sum(y, 0), also of products of concatenations

    Joined along an axis that is kept, the sums are joined: concatenate(sum(x, 1), sum(y, 1)). That
    is exact; else but for rounding.
    """
    if not is_sum(node):
        return None
    x = node.operands[0]
    ends = {axis: found for axis in range(x.tensor.rank) if len(found := _ends(x, axis)) > 1}
    if not ends:
        return None
    axis = min(ends, key=lambda axis: len(ends[axis]))
    if len(ends[axis]) > MOST_PARTS:
        return Skip(f"a concatenation of more than {MOST_PARTS} parts")
    bounds = pairwise([0, *sorted(ends[axis])])
    sums = [sum_over(_part(x, axis, *both), node["dimensions"]) for both in bounds]
    if axis not in node["dimensions"]:
        return build.emit("concatenate", sums, {"dimension": kept_axes(node).index(axis)})
    return reduce(build.add, sums)


def _ends(node: Node, axis: int, depth: int = DEEPEST) -> set[int]:
    """Where the parts end along an axis, of the concatenations that a tensor is made of."""
    if node.name == "concatenate" and node["dimension"] == axis:
        return set(accumulate(part.shape[axis] for part in node.operands))
    if not depth:
        return set()
    if (start := _start(node, axis)) is not None:
        ends = _ends(node.operands[0], axis, depth - 1)
        return {min(end - start, node.shape[axis]) for end in ends if end > start}
    own = _elements(node)
    return set[int]().union(*(_ends(operand, axis, depth - 1) for operand in own))


def _part(node: Node, axis: int, start: int, limit: int, depth: int = DEEPEST) -> Node:
    """The elements from start to limit, which are of one part of each concatenation."""
    if node.name == "concatenate" and node["dimension"] == axis:
        begin = 0
        for part in node.operands:
            if start < begin + part.shape[axis]:
                return slice_axis(part, axis, start - begin, limit - begin)
            begin += part.shape[axis]
    if not depth or not _ends(node, axis, depth):
        return slice_axis(node, axis, start, limit)
    if (offset := _start(node, axis)) is not None:
        return _part(node.operands[0], axis, start + offset, limit + offset, depth - 1)
    own = _elements(node)
    operands = [_part(x, axis, start, limit, depth - 1) if x in own else x for x in node.operands]
    return with_shape(node, operands, node.tensor.with_axis(axis, limit - start).shape)


def _elements(node: Node) -> set[Node]:
    """The operands of which each element of the node is made of one."""
    if node.name not in ELEMENTWISE:
        return set()
    return {operand for operand in node.operands if operand.shape == node.shape}


def _start(node: Node, axis: int) -> int | None:
    """Where a slice begins that takes a part of one axis, and the others whole."""
    if node.name != "slice" or node["strides"][axis] != 1:
        return None
    whole = node.operands[0].tensor.with_axis(axis, node.shape[axis]).shape == node.shape
    return node["start_indices"][axis] if whole else None


CONTRACTION = Optimizer(
    "contraction",
    (
        sum_of_masked,
        sum_of_concatenation,
        common_factor,
        weighted_sum_of_columns,
        sum_of_broadcast_product,
        product_of_broadcast_product,
    ),
)
