"""Builders and matchers that the rules share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node, Region
from tf_memsafe.hlo.op import Symbol, all_ops
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.hlo.ops.elementwise import same_axis
from tf_memsafe.hlo.ops.structure import literal
from tf_memsafe.hlo.types import TensorType

VIEWS = {"reshape", "broadcast_in_dim", "transpose", "slice"}
"""Ops whose result has elements of their operand alone: one value repeated, if that is."""

ELEMENTWISE = frozenset(op.name for op in all_ops() if op.slice is same_axis and op.name != "map")
"""Ops that compute each element of the result from the same element of each operand."""

DEFAULT_PRECISION = (Symbol("precision", "DEFAULT"),) * 2


def repeated_value(node: Node) -> float | int | complex | bool | None:
    """The value that a constant, or a view of one, repeats; None for any other node."""
    while node.name in VIEWS:
        node = node.operands[0]
    if node.name != "constant":
        return None
    values = literal(node)
    return values[0].item() if len(values) == 1 else None


def repeats(node: Node, value: float) -> bool:
    """Whether each element of the node is known to be this value."""
    found = repeated_value(node)
    return found is not None and not isinstance(found, bool) and found == value


def is_float(node: Node) -> bool:
    return node.dtype in ("f16", "bf16", "f32", "f64")


def filled(value: complex, like: Node, shape: Sequence[int]) -> Node:
    """A tensor of one repeated value, of the dtype of `like`."""
    return build.broadcast(build.constant(value, TensorType(like.dtype)), shape)


@cache
def sum_region(dtype: str) -> Region:
    """The reducer of a sum; one for each dtype, so that equal sums are one node."""
    types = [TensorType(dtype)] * 2
    x, y = (build.parameter(index, type_, f"sum of {dtype}") for index, type_ in enumerate(types))
    return Region((x, y), (build.add(x, y),))


def sum_over(x: Node, axes: Sequence[int], initial: float = 0) -> Node:
    """The sum over these axes, starting from `initial`; x itself if there are none."""
    if not axes:
        return x
    attributes = {"dimensions": tuple(sorted(axes))}
    start = build.constant(initial, TensorType(x.dtype))
    return build.emit("reduce", (x, start), attributes, regions=(sum_region(x.dtype),))


def is_sum(node: Node) -> bool:
    """Whether a reduce adds up one tensor, and nothing else."""
    if node.name != "reduce" or len(node.operands) != 2 or not repeats(node.operands[1], 0):
        return False
    (region,) = node.regions
    (result,) = region.results
    return result.name == "add" and set(result.operands) == set(region.parameters)


def dot(
    x: Node, y: Node, numbers: DotNumbers, precision: tuple[Symbol, ...] = DEFAULT_PRECISION
) -> Node:
    attributes = {"dot_dimension_numbers": numbers, "precision_config": precision}
    return build.emit("dot_general", (x, y), attributes)


def is_plain_product(node: Node) -> bool:
    """Whether a node is a matrix product at the default precision, in its operands' own dtype."""
    if node.name != "dot_general" or node["precision_config"] != DEFAULT_PRECISION:
        return False
    return all(operand.dtype == node.dtype for operand in node.operands)


def transpose(x: Node, permutation: Sequence[int]) -> Node:
    if tuple(permutation) == tuple(range(x.tensor.rank)):
        return x
    return build.emit("transpose", (x,), {"permutation": tuple(permutation)})


def spread(x: Node, places: Sequence[int], shape: Sequence[int]) -> Node:
    """x repeated to a shape, with its axis i at places[i], in any order."""
    order = sorted(range(len(places)), key=places.__getitem__)
    return build.broadcast(transpose(x, order), shape, sorted(places))


def slice_axis(x: Node, axis: int, start: int, limit: int) -> Node:
    """The elements from `start` to `limit` along one axis."""
    if (start, limit) == (0, x.shape[axis]):
        return x
    return build.part(x, axis, start, limit)


def slice_of(x: Node, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int]) -> Node:
    attributes = {
        "start_indices": tuple(starts),
        "limit_indices": tuple(limits),
        "strides": tuple(strides),
    }
    return build.emit("slice", (x,), attributes)


def with_shape(node: Node, operands: Sequence[Node], shape: Sequence[int]) -> Node:
    """The elementwise op of a node, on operands of another shape."""
    type_ = node.tensor.with_shape(shape)
    return build.emit(node.name, operands, node.attributes, type=type_, source=node.source)


def long_axes(node: Node) -> list[int]:
    """The axes that have another size than 1."""
    return [axis for axis, size in enumerate(node.shape) if size != 1]


def long_sizes(node: Node) -> list[int]:
    """The sizes of these axes."""
    return [size for size in node.shape if size != 1]


Group = tuple[list[int], list[int]]
"""Axes of one shape, and the axes of another that hold the same elements."""


def axis_groups(before: Sequence[int], after: Sequence[int]) -> list[Group] | None:
    """How a reshape between two shapes splits and merges axes, in the smallest groups.

    Axes of one element are in none. None if there are no elements.

    Example: `axis_groups((10, 1, 8), (2, 5, 8))` is `[([0], [0, 1]), ([2], [2])]`.
    """
    if 0 in before:
        return None
    groups: list[Group] = []
    left, right = ([axis for axis, size in enumerate(s) if size != 1] for s in (before, after))
    while left:
        group: Group = ([left.pop(0)], [right.pop(0)])
        sizes = [before[group[0][0]], after[group[1][0]]]
        while sizes[0] != sizes[1]:
            side, rest, shape = (0, left, before) if sizes[0] < sizes[1] else (1, right, after)
            group[side].append(rest.pop(0))
            sizes[side] *= shape[group[side][-1]]
        groups.append(group)
    return groups


def float_bits(dtype: str) -> tuple[int, int] | None:
    """The digits and the exponent bits of a float's dtype; None for any other."""
    bits = {"f16": (10, 5), "bf16": (7, 8), "f32": (23, 8), "f64": (52, 11)}
    return bits.get(dtype)


def integer_range(dtype: str) -> tuple[int, int] | None:
    """The smallest and largest value of an integer dtype; None for any other."""
    kind = np.dtype(build.NUMPY_DTYPES[dtype]).kind
    if kind not in "iu" or dtype in ("i4", "ui4"):
        return None
    info = np.iinfo(build.NUMPY_DTYPES[dtype])
    return int(info.min), int(info.max)


def is_widening(narrow: str, wide: str) -> bool:
    """Whether each value of one dtype is a value of the other."""
    digits, room = float_bits(narrow), float_bits(wide)
    if digits and room:
        return all(has <= offered for has, offered in zip(digits, room, strict=True))
    if narrow.startswith("complex") or wide.startswith("complex") or narrow == "i1":
        return False
    values, range_ = integer_range(narrow), integer_range(wide)
    if values and range_:
        return range_[0] <= values[0] and values[1] <= range_[1]
    # A float with p stored digits holds each integer of p + 1 bits.
    return bool(values and room and max(map(abs, values)) <= 2 ** (room[0] + 1))
