"""Ops that move or repeat elements without computing: broadcasts, views, iota."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Attributes, Node
from tf_memsafe.hlo.op import (
    Chunk,
    Cut,
    Fusion,
    Instruction,
    Op,
    declared_type,
    no_flops,
    register,
    same_as_first_operand,
    sliced,
)
from tf_memsafe.hlo.types import TensorType, Type


def _read_broadcast(instruction: Instruction) -> Attributes:
    return {"broadcast_dimensions": tuple(instruction.proto.dimensions)}


def _infer_broadcast(
    operands: Sequence[Node], attributes: Attributes, regions: object, declared: Type | None
) -> Type:
    result = declared_type(operands, attributes, regions, declared)
    assert isinstance(result, TensorType)
    for size, axis in zip(operands[0].shape, attributes["broadcast_dimensions"], strict=True):
        if size not in (1, result.shape[axis]):
            raise TypeError(f"an axis of {size} cannot be repeated to {result.shape[axis]}")
    return result


def _slice_broadcast(node: Node, cut: Cut) -> tuple[Cut | None, ...]:
    axes, operand = node["broadcast_dimensions"], node.operands[0]
    if cut.axis not in axes:
        return (None,)
    axis = axes.index(cut.axis)
    # An axis of one element is repeated: every chunk needs that element.
    repeated = operand.shape[axis] != node.shape[cut.axis]
    return (None,) if repeated else (cut._replace(axis=axis),)


def _infer_reshape(
    operands: Sequence[Node], attributes: Attributes, regions: object, declared: Type | None
) -> Type:
    result = declared_type(operands, attributes, regions, declared)
    if not isinstance(result, TensorType) or result.size != operands[0].tensor.size:
        raise TypeError(f"{operands[0].type} cannot be reshaped to {result}")
    return result


def _slice_reshape(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    """A chunk of the result is a chunk of the operand where both are runs of the same elements.

    That is so when as many elements vary slower than the axis on either side, and when one step
    is a whole number of the other axis' elements.
    """
    operand = node.operands[0]
    steps = node.shape[cut.axis] // cut.unit
    slower, step = prod(node.shape[: cut.axis]), cut.unit * prod(node.shape[cut.axis + 1 :])
    for axis, size in enumerate(operand.shape):
        inner = prod(operand.shape[axis + 1 :])
        if (
            prod(operand.shape[:axis]) == slower
            and size > 1
            and inner
            and step % inner == 0
            and steps * (step // inner) == size
        ):
            return (Cut(axis, step // inner, cut.first),)
    return None


def _read_transpose(instruction: Instruction) -> Attributes:
    return {"permutation": tuple(instruction.proto.dimensions)}


def _infer_transpose(
    operands: Sequence[Node], attributes: Attributes, _regions: object, _declared: object
) -> Type:
    shape = operands[0].shape
    return operands[0].tensor.with_shape([shape[axis] for axis in attributes["permutation"]])


def _slice_transpose(node: Node, cut: Cut) -> tuple[Cut | None, ...]:
    return (cut._replace(axis=node["permutation"][cut.axis]),)


def _read_dimensions(instruction: Instruction) -> Attributes:
    return {"dimensions": tuple(instruction.proto.dimensions)}


def _slice_reverse(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    return None if cut.axis in node["dimensions"] else (cut,)


def _read_iota(instruction: Instruction) -> Attributes:
    return {"iota_dimension": instruction.proto.dimensions[0]}


def _slice_iota(_node: Node, _cut: Cut) -> tuple[Cut | None, ...]:
    return ()


def _chunk_iota(node: Node, cut: Cut, _operands: tuple[Node, ...], chunk: Chunk) -> Node:
    type_ = sliced(node, cut, chunk.size)
    numbers = build.emit("iota", (), node.attributes, type=type_)
    if cut.axis != node["iota_dimension"]:
        return numbers
    start = build.convert(build.chunk_start(chunk, cut), node.dtype)
    return build.add(numbers, build.broadcast(start, type_.shape))


register(
    Op(
        name="broadcast_in_dim",
        opcodes=("broadcast",),
        read=_read_broadcast,
        infer=_infer_broadcast,
        flops=no_flops,
        fusion=Fusion.LOOP,
        slice=_slice_broadcast,
    ),
    Op(
        name="reshape",
        opcodes=("reshape",),
        infer=_infer_reshape,
        flops=no_flops,
        fusion=Fusion.LOOP,
        slice=_slice_reshape,
    ),
    Op(
        name="transpose",
        opcodes=("transpose",),
        read=_read_transpose,
        infer=_infer_transpose,
        flops=no_flops,
        fusion=Fusion.LOOP,
        slice=_slice_transpose,
    ),
    Op(
        name="reverse",
        opcodes=("reverse",),
        read=_read_dimensions,
        infer=same_as_first_operand,
        flops=no_flops,
        fusion=Fusion.LOOP,
        slice=_slice_reverse,
    ),
    Op(
        name="iota",
        opcodes=("iota",),
        read=_read_iota,
        flops=no_flops,
        fusion=Fusion.LOOP,
        slice=_slice_iota,
        chunk=_chunk_iota,
    ),
)
