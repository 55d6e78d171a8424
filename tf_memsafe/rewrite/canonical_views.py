"""canonical, of views: one view in place of several, and of repeated values as near the result.

What repeats is repeated last: what is done to it first is done once.
"""

from __future__ import annotations

from collections.abc import Sequence

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.ops.structure import is_splat, literal
from tf_memsafe.hlo.simplify import MAY_CHANGE_NOTHING, one_reshape, unchanged
from tf_memsafe.rewrite.maths import (
    ELEMENTWISE,
    filled,
    is_sum,
    long_axes,
    long_sizes,
    slice_of,
    transpose,
    with_shape,
)
from tf_memsafe.rewrite.repeats import (
    Repeated,
    axes_of,
    reshaped_broadcast,
    transposed_broadcast,
)
from tf_memsafe.rewrite.rule import Outcome, rule

# --- one view in place of several ---------------------------------------------------------------


@rule(*MAY_CHANGE_NOTHING)
def no_op(node: Node) -> Outcome:
    """reshape(x) => x, and other views of x as itself"""
    return unchanged(node)


@rule("reshape")
def reshape_twice(node: Node) -> Outcome:
    """reshape(reshape(x)) => reshape(x)"""
    return one_reshape(node)


@rule("transpose")
def transpose_twice(node: Node) -> Outcome:
    """transpose(transpose(x)) => transpose(x)"""
    inner = node.operands[0]
    if inner.name != "transpose":
        return None
    return transpose(
        inner.operands[0], [inner["permutation"][axis] for axis in node["permutation"]]
    )


@rule("transpose", "reshape")
def transpose_of_ones(node: Node) -> Outcome:
    """reshape(transpose(x)) => reshape(x), if only axes of one element change their places

    The same for transpose(reshape(x)). A transpose alone is left to the product that it is for.
    """
    inner = node.operands[0]
    if {node.name, inner.name} != {"transpose", "reshape"}:
        return None
    moved = node if node.name == "transpose" else inner
    x = moved.operands[0]
    order = [axis for axis in moved["permutation"] if x.shape[axis] != 1]
    return build.reshape(inner.operands[0], node.shape) if order == sorted(order) else None


@rule("slice")
def slice_twice(node: Node) -> Outcome:
    """x[a:b][c:d] => x[a + c:a + d]"""
    inner = node.operands[0]
    if inner.name != "slice" or not node.tensor.size:
        return None
    strides = [i * j for i, j in zip(inner["strides"], node["strides"], strict=True)]
    starts = [
        outer + start * stride
        for outer, start, stride in zip(
            inner["start_indices"], node["start_indices"], inner["strides"], strict=True
        )
    ]
    limits = [
        start + (size - 1) * stride + 1
        for start, size, stride in zip(starts, node.shape, strides, strict=True)
    ]
    return slice_of(inner.operands[0], starts, limits, strides)


@rule("reduce")
def sum_of_one(node: Node) -> Outcome:
    """sum(x, 1) => reshape(x), if that axis has one element

    A zero keeps its sign, which adding it to 0 would lose; XLA drops such sums in the same way.
    """
    x = node.operands[0]
    if not is_sum(node) or any(x.shape[axis] != 1 for axis in node["dimensions"]):
        return None
    return build.reshape(x, node.shape)


# --- what repeats -------------------------------------------------------------------------------


@rule("constant")
def repeated_constant(node: Node) -> Outcome:
    """a constant that repeats one value => broadcast(that value)"""
    return filled(literal(node)[0], node, node.shape) if node.shape and is_splat(node) else None


@rule("broadcast_in_dim")
def broadcast_twice(node: Node) -> Outcome:
    """broadcast(broadcast(x)) => broadcast(x)"""
    inner = node.operands[0]
    if inner.name != "broadcast_in_dim":
        return None
    axes = [node["broadcast_dimensions"][axis] for axis in inner["broadcast_dimensions"]]
    return build.broadcast(inner.operands[0], node.shape, axes)


@rule("broadcast_in_dim")
def broadcast_of_ones(node: Node) -> Outcome:
    """broadcast(x[:, None]) => broadcast(x): axes of one element are not carried along"""
    x, axes = node.operands[0], node["broadcast_dimensions"]
    kept = long_axes(x)
    if len(kept) == x.tensor.rank or not node.tensor.size:
        return None
    narrow = build.reshape(x, long_sizes(x))
    return build.broadcast(one_reshape(narrow) or narrow, node.shape, [axes[axis] for axis in kept])


@rule("reshape")
def reshape_of_broadcast(node: Node) -> Outcome:
    """reshape(broadcast(x)) => broadcast(reshape(x))"""
    return reshaped_broadcast(node.operands[0], node.shape)


@rule("transpose")
def transpose_of_broadcast(node: Node) -> Outcome:
    """transpose(broadcast(x)) => broadcast(transpose(x))"""
    places = [node["permutation"].index(axis) for axis in range(node.tensor.rank)]
    return transposed_broadcast(node.operands[0], node.shape, places)


@rule("slice")
def slice_of_broadcast(node: Node) -> Outcome:
    """broadcast(x)[a:b] => broadcast(x[a:b])"""
    found = axes_of(node.operands[0])
    if found is None:
        return None
    bounds = ("start_indices", "limit_indices", "strides")
    ends = [[node[name][axis] for axis in found.axes] for name in bounds]
    part = slice_of(found.node, *ends)
    return build.broadcast(unchanged(part) or part, node.shape, found.axes)


@rule(*ELEMENTWISE)
def computed_once(node: Node) -> Outcome:
    """exp(broadcast(x)) => broadcast(exp(x)), and x + y of what repeats along the same axes"""
    repeated = []
    for operand in node.operands:
        scalar = operand.shape == () != node.shape
        found = Repeated(operand, ()) if scalar else axes_of(operand)
        if found is None:
            return None
        repeated.append(found)
    axes = sorted({axis for found in repeated for axis in found.axes})
    if len(axes) == node.tensor.rank:
        return None
    sizes = [node.shape[axis] for axis in axes]
    operands = [
        operand if operand is found.node else _narrow(found, sizes, axes)
        for operand, found in zip(node.operands, repeated, strict=True)
    ]
    return build.broadcast(with_shape(node, operands, sizes), node.shape, axes)


def _narrow(found: Repeated, sizes: Sequence[int], axes: Sequence[int]) -> Node:
    return build.broadcast(found.node, sizes, [axes.index(axis) for axis in found.axes])
