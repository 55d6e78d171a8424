"""Ops that put elements in order along an axis: sort and top_k."""

from __future__ import annotations

from collections.abc import Sequence

from tf_memsafe.hlo import build
from tf_memsafe.hlo.check import require, require_axis, require_count, require_same_shape
from tf_memsafe.hlo.node import Attributes, Node
from tf_memsafe.hlo.op import Cut, Instruction, Op, UnsupportedOpError, register
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


def _flops_sort(node: Node) -> int:
    length = node.operands[0].shape[node["dimension"]]
    return node.operands[0].tensor.size * max(1, length.bit_length())


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


def _flops_top_k(node: Node) -> int:
    return 2 * node.operands[0].tensor.size * max(1, node["k"].bit_length())


def _slice_top_k(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    return None if cut.axis == node.results[0].rank - 1 else (cut,)


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
        opcodes=("topk",),
        construct=_construct_top_k,
        infer=_infer_top_k,
        flops=_flops_top_k,
        slice=_slice_top_k,
        dialect="chlo",
    ),
)
