"""Builders and matchers that the rules share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node, Region
from tf_memsafe.hlo.op import Symbol
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.hlo.ops.structure import literal
from tf_memsafe.hlo.types import TensorType

VIEWS_OF_ONE_VALUE = {"reshape", "broadcast_in_dim", "transpose", "slice"}
"""Ops whose result repeats one value if their operand does."""

DEFAULT_PRECISION = (Symbol("precision", "DEFAULT"),) * 2


def repeated_value(node: Node) -> float | int | complex | bool | None:
    """The value that a constant, or a view of one, repeats; None for any other node."""
    while node.name in VIEWS_OF_ONE_VALUE:
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


def filled(value: float, like: Node, shape: Sequence[int]) -> Node:
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


def transpose(x: Node, permutation: Sequence[int]) -> Node:
    if tuple(permutation) == tuple(range(x.tensor.rank)):
        return x
    return build.emit("transpose", (x,), {"permutation": tuple(permutation)})


def slice_axis(x: Node, axis: int, start: int, limit: int) -> Node:
    """The elements from `start` to `limit` along one axis."""
    if (start, limit) == (0, x.shape[axis]):
        return x
    starts, limits = [0] * x.tensor.rank, list(x.shape)
    starts[axis], limits[axis] = start, limit
    return slice_of(x, starts, limits, (1,) * x.tensor.rank)


def slice_of(x: Node, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int]) -> Node:
    attributes = {
        "start_indices": tuple(starts),
        "limit_indices": tuple(limits),
        "strides": tuple(strides),
    }
    return build.emit("slice", (x,), attributes)


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
