"""target: what one back end is slow at, put in another way. So far it is XLA's for CPUs.

`benchmarks/rewrites.py target` prints what each rule gains.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node, Region
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.cholesky import cholesky_by_blocks
from tf_memsafe.rewrite.columns_once import columns_once
from tf_memsafe.rewrite.maths import slice_axis
from tf_memsafe.rewrite.rule import Optimizer, Outcome, Skip, rule
from tf_memsafe.rewrite.side_by_side import groups_side_by_side
from tf_memsafe.rewrite.sum_in_parts import product_in_parts, sum_in_parts
from tf_memsafe.rewrite.written_sum import written_sum

TINY_INNER_SIZES = {2, 3}
"""Of a matrix product that the back end runs on one thread and does not fuse with its users. A
product of inner size 1 it fuses by itself."""

SMALLEST_SIDE = 16
"""Rows and columns of a product from which a sum of broadcast products is not slower."""

ROUNDED_DTYPES = {"f16", "bf16"}
"""In which a sum of products would be rounded after each term."""


@rule("dot_general")
def tiny_inner_size(node: Node) -> Outcome:
    """x @ y => x[:, :1] * y[:1] + x[:, 1:] * y[1:], for an inner size of 2 or 3

    XLA computes the sum with what uses it, in one pass; the product it computes by itself, on one
    thread. Exact but for rounding.
    """
    numbers: DotNumbers = node["dot_dimension_numbers"]
    inner = [node.operands[0].shape[axis] for axis in numbers.lhs_contracting]
    if len(inner) != 1 or inner[0] not in TINY_INNER_SIZES:
        return None
    if node.dtype in ROUNDED_DTYPES or node.dtype != node.operands[0].dtype:
        return Skip(f"a sum of products in {node.operands[0].dtype} is rounded more often")
    sides = [_free_size(operand, numbers, side) for side, operand in enumerate(node.operands)]
    if min(sides) < SMALLEST_SIDE:
        return Skip(f"a product of {sides[0]} rows and {sides[1]} columns is fast enough")
    terms = [_term(node, index) for index in range(inner[0])]
    total = terms[0]
    for term in terms[1:]:
        total = build.add(total, term)
    return total


def _free_size(operand: Node, numbers: DotNumbers, side: int) -> int:
    return prod(operand.shape[axis] for axis in numbers.free_axes(side, operand.tensor.rank))


def _term(product: Node, index: int) -> Node:
    """The products of the elements at one position of the contracted axis."""
    numbers: DotNumbers = product["dot_dimension_numbers"]
    lhs, rhs = product.operands
    axes = numbers.result_axes(lhs.tensor.rank, rhs.tensor.rank)
    factors = []
    for side, operand in enumerate(product.operands):
        (contracted,) = numbers[side + 2]
        taken = slice_axis(operand, contracted, index, index + 1)
        kept = [axis for axis in range(operand.tensor.rank) if axis != contracted]
        column = build.reshape(taken, [operand.shape[axis] for axis in kept])
        place = {pair[side]: position for position, pair in enumerate(axes)}
        factors.append(build.broadcast(column, product.shape, [place[axis] for axis in kept]))
    return build.multiply(*factors)


MOST_FUSED_ROWS = 32
"""Rows up to which the library takes a reduction of rows into the product but not apart again."""

SHORTEST_FUSED_ROW = 50_000
"""Elements of a row from which it takes longer than the product and the reduction by themselves."""


LONG_INNER_SIZE = 16
"""From which the library is slower, whatever the size of the product."""

FEW_ELEMENTS = 2_000_000
"""Of a product of a shorter inner size, up to which it is not: 8 MB."""


@rule("reduce")
def long_rows_of_product(node: Node) -> Outcome:
    """max(x @ y, -1) => the same by a reducer that the library does not know, for few long rows

    The library (YNNPACK, for f32) takes a reduction into the product before it, and then shares
    the work out by rows. It also allocates what the product needs without saying so: this way it
    is in XLA's buffer assignment. XLA removes an optimization_barrier before it fuses.

    Exact: the reducer is written with negated values, which changes no bit of the result.
    """
    product = node.operands[0]
    if len(node.operands) != 2 or product.name != "dot_general" or product.dtype != "f32":
        return None
    rows, length = node.tensor.size, product.tensor.size // max(1, node.tensor.size)
    if _inner_size(product) < LONG_INNER_SIZE and product.tensor.size <= FEW_ELEMENTS:
        return None
    last = tuple(range(node.tensor.rank, product.tensor.rank))
    if node["dimensions"] != last or rows > MOST_FUSED_ROWS or length < SHORTEST_FUSED_ROW:
        return None
    (result,) = node.regions[0].results
    if result.name not in DISGUISED or set(result.operands) != set(node.regions[0].parameters):
        return None
    region = _disguised(result.name, node.dtype)
    return build.emit("reduce", node.operands, node.attributes, regions=(region,))


def _inner_size(product: Node) -> int:
    numbers: DotNumbers = product["dot_dimension_numbers"]
    return prod(product.operands[0].shape[axis] for axis in numbers.lhs_contracting)


def _negate(x: Node) -> Node:
    return build.emit("negate", (x,))


def _opposite(name: str) -> Callable[[Node, Node], Node]:
    return lambda x, y: _negate(build.emit(name, (_negate(x), _negate(y))))


DISGUISED: dict[str, Callable[[Node, Node], Node]] = {
    "add": lambda x, y: build.subtract(x, _negate(y)),
    "maximum": _opposite("minimum"),
    "minimum": _opposite("maximum"),
}
"""The reducers that the library knows, in words that it does not."""


@cache
def _disguised(name: str, dtype: str) -> Region:
    x, y = parameters = build.region_parameters([TensorType(dtype)] * 2)
    return Region(parameters, (DISGUISED[name](x, y),))


TARGET = Optimizer(
    "target",
    (
        tiny_inner_size,
        long_rows_of_product,
        written_sum,
        groups_side_by_side,
        product_in_parts,
        sum_in_parts,
        columns_once,
        cholesky_by_blocks,
    ),
)
