"""Ops that put elements in order along an axis: sort and top_k."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tf_memsafe.hlo import build
from tf_memsafe.hlo.check import require, require_axis, require_count, require_same_shape
from tf_memsafe.hlo.node import Attributes, Node, Region
from tf_memsafe.hlo.op import (
    Contraction,
    Cut,
    Fusion,
    Instruction,
    Op,
    UnsupportedOpError,
    register,
)
from tf_memsafe.hlo.types import TensorType, TupleType, Type


def _read_sort(instruction: Instruction) -> Attributes:
    proto = instruction.proto
    return {"dimension": proto.dimensions[0], "is_stable": proto.is_stable}


def _infer_sort(
    operands: Sequence[Node], attributes: Attributes, _regions: object, _declared: object
) -> Type:
    require(len(operands) > 0, "there is nothing to sort")
    require_same_shape(operands)
    require_axis(attributes["dimension"], operands[0].tensor.rank)
    return build.tuple_or_single([operand.tensor for operand in operands])


COMPARISON_FLOPS = 300
"""Of one comparison in a sort, which XLA's CPU back end calls a function for.
benchmarks/rewrites.py prints what sorting 4,000,000 numbers takes."""


def _flops_sort(node: Node) -> int:
    return _sorting(node.operands[0].tensor, node["dimension"])


def _sorting(array: TensorType, axis: int) -> int:
    return COMPARISON_FLOPS * array.size * max(1, array.shape[axis].bit_length())


def _slice_sort(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    return None if cut.axis == node["dimension"] else (cut,) * len(node.operands)


def _construct_top_k(instruction: Instruction) -> Node:
    if not instruction.proto.largest:
        raise UnsupportedOpError("topk of the smallest", instruction.source)
    attributes = {"k": instruction.proto.k}
    return build.emit("top_k", instruction.operands, attributes, source=instruction.source)


def _infer_top_k(
    operands: Sequence[Node], attributes: Attributes, _regions: object, _declared: object
) -> Type:
    require_count(operands, 1)
    operand = operands[0].tensor
    require_axis(operand.rank - 1, operand.rank)
    require(0 <= attributes["k"] <= operand.shape[-1], "k is larger than the axis")
    values = operand.with_axis(operand.rank - 1, attributes["k"])
    return TupleType((values, TensorType("i32", values.shape)))


FINDING_FLOPS = 3000
"""For each of the k of a row, however short the row is: XLA looks through rows on one thread. This
is roughly how much that is; benchmarks/knn.py prints what comes of it."""


def _flops_top_k(node: Node) -> int:
    """XLA's CPU back end has a call of its own for f32 alone; all else it sorts."""
    array = node.operands[0].tensor
    if array.dtype != "f32":
        return _sorting(array, array.rank - 1)
    finding = FINDING_FLOPS * node.results[0].size
    return 2 * array.size * max(1, node["k"].bit_length()) + finding


GROUPS_SHARE = 7
"""What part of the operand are the maxima of groups of eight, of groups of those, and so on."""


def _workspace_top_k(node: Node) -> int:
    """Of finding the largest by groups, which leaves the operand to XLA to fuse (rewrite/top_k)."""
    return node.operands[0].type.bytes // GROUPS_SHARE


def _slice_top_k(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    return None if cut.axis == node.results[0].rank - 1 else (cut,)


# --- the top k of several chunks are the top k of each chunk's ------------------------------------

MERGING_FLOPS = FINDING_FLOPS
"""For each of the k and of the two results: half of it is to find a chunk's, half to merge them."""


def _contract_top_k(node: Node) -> list[Contraction]:
    last = node.results[0].rank - 1
    merge = Contraction(
        (last,), _below_all, _merge_top_k, _top_k_of_chunk, MERGING_FLOPS, ordered=True
    )
    return [merge] if node["k"] else []


def _top_k_of_chunk(node: Node, operands: Sequence[Node]) -> Node:
    """A chunk may have fewer than k elements."""
    k = min(node["k"], operands[0].shape[-1])
    return build.emit("top_k", operands, {"k": k}, source=node.source)


def _below_all(node: Node) -> tuple[Node, ...]:
    """Values that come last in XLA's total order, at positions after all others."""
    shape = node.results[0].shape
    dtype = np.dtype(build.NUMPY_DTYPES[node.results[0].dtype])
    if dtype.kind in "iu":
        lowest = np.array(np.iinfo(dtype).min, dtype)
    else:
        lowest = np.array(-1, f"i{dtype.itemsize}").view(dtype)  # NaN with each bit set
    positions = np.iinfo(np.int32).max
    return (
        build.constant(lowest, node.results[0].with_shape(shape)),
        build.constant(positions, TensorType("i32", shape)),
    )


def _merge_top_k(
    _node: Node, accumulated: Sequence[Node], chunk: Sequence[Node], start: Node
) -> tuple[Node, ...]:
    """By position too: what stands for nothing comes after an element that is as low."""
    k, last = accumulated[0].shape[-1], accumulated[0].tensor.rank - 1
    positions = build.add(chunk[1], build.broadcast(start, chunk[1].shape))
    pairs = zip(accumulated, (chunk[0], positions), strict=True)
    both = [build.emit("concatenate", pair, {"dimension": last}) for pair in pairs]
    region = _larger_or_earlier(both[0].dtype)
    attributes = {"dimension": last, "is_stable": True}
    ordered = build.results(build.emit("sort", both, attributes, regions=(region,)))
    return tuple(build.prefix(values, k) for values in ordered)


def _larger_or_earlier(dtype: str) -> Region:
    """Whether an element comes first: the larger value does, and of equals the lower position."""
    types = [TensorType(dtype)] * 2 + [TensorType("i32")] * 2
    x, y, x_position, y_position = parameters = build.region_parameters(types)
    same = build.compare(x, y, "EQ", total=True)
    earlier = build.emit("and", (same, build.compare(x_position, y_position, "LT")))
    larger = build.compare(x, y, "GT", total=True)
    return Region(parameters, (build.emit("or", (larger, earlier)),))


register(
    Op(
        name="sort",
        opcodes=("sort",),
        read=_read_sort,
        infer=_infer_sort,
        flops=_flops_sort,
        slice=_slice_sort,
    ),
    Op(
        name="top_k",
        fusion=Fusion.REDUCE,
        workspace=_workspace_top_k,
        opcodes=("topk",),
        construct=_construct_top_k,
        infer=_infer_top_k,
        flops=_flops_top_k,
        slice=_slice_top_k,
        contract=_contract_top_k,
        dialect="chlo",
    ),
)
