"""A sample of a tensor: evenly spaced elements along an axis, without the tensor itself."""

from __future__ import annotations

from tf_memsafe.hlo.node import Node
from tf_memsafe.rewrite.maths import ELEMENTWISE, VIEWS, slice_of, with_shape


def sampled(x: Node, axis: int, size: int) -> Node:
    """About `size` elements of x along an axis; x itself where there is no sample that needs less.

    It has to have twice as many, and to be computed element by element from arguments.
    """
    stride = x.shape[axis] // size
    return (_every(stride, x, axis, {}) or x) if stride > 1 else x


def _every(stride: int, x: Node, axis: int, known: dict[Node, Node | None]) -> Node | None:
    """The first of each `stride` elements; known: what was looked at already."""
    if x not in known:
        found = _slice(stride, x, axis) if _is_there(x) else None
        known[x] = found or _elementwise(stride, x, axis, known)
    return known[x]


def _elementwise(stride: int, x: Node, axis: int, known: dict[Node, Node | None]) -> Node | None:
    if x.name not in ELEMENTWISE:
        return None
    operands = []
    for operand in x.operands:
        part = _every(stride, operand, axis, known) if operand.shape == x.shape else operand
        if part is None:
            return None
        operands.append(part)
    shape = list(x.shape)
    shape[axis] //= stride
    return with_shape(x, operands, shape)


def _is_there(x: Node) -> bool:
    """Whether x is an argument, a constant, or a view of one."""
    while x.name in VIEWS:
        x = x.operands[0]
    return x.name in ("parameter", "constant")


def _slice(stride: int, x: Node, axis: int) -> Node:
    rank, limits = x.tensor.rank, list(x.shape)
    limits[axis] -= limits[axis] % stride
    strides = [stride if each == axis else 1 for each in range(rank)]
    return slice_of(x, [0] * rank, limits, strides)
