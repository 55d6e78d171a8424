"""top_k, before anything is cut: for a few elements of a sorted axis there is no need to sort it.

While an axis is sorted it cannot be cut; its top k are found chunk by chunk.
"""

from __future__ import annotations

from typing import NamedTuple

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.ops.elementwise import BINARY, UNARY
from tf_memsafe.rewrite.canonical_order import sorted_prefix
from tf_memsafe.rewrite.maths import filled, is_float, repeated_value, slice_axis, transpose
from tf_memsafe.rewrite.rule import Optimizer, Outcome, Skip, Uses, rule

ELEMENTWISE = {*UNARY, *BINARY, "convert"}


class Part(NamedTuple):
    """The elements from `start` to `limit` of one axis of `size`, the other axes whole."""

    axis: int
    start: int
    limit: int
    size: int


@rule("slice")
def slice_of_what_was_sorted(node: Node) -> Outcome:
    """f(sort(x))[:k] => f(sort(x)[:k]), for an elementwise f, a transpose or a reversal"""
    outer, part = node.operands[0], _part_of(node)
    if part is None or outer.name not in {*ELEMENTWISE, "transpose", "reverse"}:
        return None
    if not _was_sorted(outer):
        return None
    axis, start, limit, size = part
    if outer.name == "transpose":
        axis = outer["permutation"][axis]
        return transpose(slice_axis(outer.operands[0], axis, start, limit), outer["permutation"])
    if outer.name == "reverse" and axis in outer["dimensions"]:
        start, limit = size - limit, size - start
    operands = [
        slice_axis(operand, axis, start, limit)
        if (value := repeated_value(operand)) is None
        else filled(value, operand, node.shape)
        for operand in outer.operands
    ]
    return build.emit(outer.name, operands, outer.attributes, type=node.type)


@rule("slice")
def part_of_sorted(node: Node) -> Outcome:
    """sort(x)[a:b] => top_k(x, b)[a:], or the same from the other end: reverse(-top_k(-x, k))

    Exact: `-x` stands for what reverses the order of all values, and of equals too.
    """
    ordered, part = node.operands[0], _part_of(node)
    if part is None or not _is_sort(ordered) or part.axis != node.tensor.rank - 1:
        return None
    from_end = part.size - part.start
    k = min(part.limit, from_end)
    first = sorted_prefix.apply(build.prefix(ordered, k), Uses())
    if not isinstance(first, Node):
        return first
    if 2 * k >= part.size:
        return Skip(f"{k} of {part.size} elements are as much work as sorting all")
    if k == part.limit:
        return slice_axis(first, part.axis, part.start, k)
    last = _last(first.operands[0].operands[0], k, first["index"])
    return slice_axis(last, part.axis, 0, part.limit - part.start)


def _last(x: Node, k: int, index: int) -> Node:
    """The last k values of `x` sorted down (index 0), or their positions (1)."""
    axis = x.tensor.rank - 1
    if index == 0:
        return _opposite(_reversed(_top_k(_opposite(x), k)[0], axis))
    position = _top_k(_reversed(_opposite(x), axis), k)[1]
    highest = filled(x.shape[-1] - 1, position, position.shape)
    return _reversed(build.subtract(highest, position), axis)


def _top_k(x: Node, k: int) -> tuple[Node, ...]:
    return build.results(build.emit("top_k", (x,), {"k": k}))


def _opposite(x: Node) -> Node:
    """Values of the opposite order; where it is undone, the values that there were."""
    name = "negate" if is_float(x) else "not"
    return x.operands[0] if x.name == name else build.emit(name, (x,))


def _reversed(x: Node, axis: int) -> Node:
    return build.emit("reverse", (x,), {"dimensions": (axis,)})


def _part_of(node: Node) -> Part | None:
    """What a slice takes, if it takes a part of one axis and each element of that."""
    whole = node.operands[0].shape
    cut = [axis for axis, size in enumerate(node.shape) if size != whole[axis]]
    if len(cut) != 1 or set(node["strides"]) != {1}:
        return None
    (axis,) = cut
    return Part(axis, node["start_indices"][axis], node["limit_indices"][axis], whole[axis])


def _is_sort(node: Node) -> bool:
    return node.name == "sort" or (
        node.name == "get_tuple_element" and node.operands[0].name == "sort"
    )


def _was_sorted(node: Node) -> bool:
    """Whether all that varies in it comes from one result of a sort."""
    while not _is_sort(node):
        varied = [operand for operand in node.operands if repeated_value(operand) is None]
        if len(varied) != 1 or node.name not in {*ELEMENTWISE, "transpose", "reverse"}:
            return False
        (node,) = varied
    return True


SORTED_SLICE = Optimizer("top_k", (slice_of_what_was_sorted, part_of_sorted))
