"""Ops that move or repeat elements without computing: broadcasts, views, slices, iota."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

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
            return (Cut(axis, step // inner),)
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
    offset = build.multiply(chunk.offset, build.index(cut.unit))
    return build.add(numbers, build.broadcast(build.convert(offset, node.dtype), type_.shape))


def _read_slice(instruction: Instruction) -> Attributes:
    ranges = instruction.proto.slice_dimensions
    return {
        "start_indices": tuple(r.start for r in ranges),
        "limit_indices": tuple(r.limit for r in ranges),
        "strides": tuple(r.stride for r in ranges),
    }


def _infer_slice(
    operands: Sequence[Node], attributes: Attributes, _regions: object, _declared: object
) -> Type:
    bounds = zip(
        attributes["start_indices"],
        attributes["limit_indices"],
        attributes["strides"],
        operands[0].shape,
        strict=True,
    )
    shape = []
    for start, limit, stride, size in bounds:
        if not 0 <= start <= limit <= size:
            raise TypeError(f"the slice {start}:{limit} is outside an axis of {size}")
        shape.append(-(-(limit - start) // stride))
    return operands[0].tensor.with_shape(shape)


def _slice_slice(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    """Only an axis that is taken whole can be cut."""
    untouched = node.operands[0].shape[cut.axis] == node.shape[cut.axis]
    return (cut,) if untouched else None


def _chunk_slice(node: Node, cut: Cut, operands: tuple[Node, ...], chunk: Chunk) -> Node:
    limits = list(node["limit_indices"])
    limits[cut.axis] = chunk.size * cut.unit
    return build.emit("slice", operands, {**node.attributes, "limit_indices": tuple(limits)})


def _read_pad(instruction: Instruction) -> Attributes:
    edges = instruction.proto.padding_config.dimensions
    return {
        "edge_padding_low": tuple(e.edge_padding_low for e in edges),
        "edge_padding_high": tuple(e.edge_padding_high for e in edges),
        "interior_padding": tuple(e.interior_padding for e in edges),
    }


class _Padding(NamedTuple):
    low: int
    high: int
    interior: int

    def padded(self, size: int) -> int:
        return self.low + size + max(0, size - 1) * self.interior + self.high


def _paddings(attributes: Attributes) -> list[_Padding]:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    return [_Padding(*edges) for edges in zip(*(attributes[name] for name in names), strict=True)]


def _infer_pad(
    operands: Sequence[Node], attributes: Attributes, _regions: object, _declared: object
) -> Type:
    pairs = zip(_paddings(attributes), operands[0].shape, strict=True)
    return operands[0].tensor.with_shape([padding.padded(size) for padding, size in pairs])


def _slice_pad(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    return (cut, None) if _paddings(node.attributes)[cut.axis] == (0, 0, 0) else None


def _read_concatenate(instruction: Instruction) -> Attributes:
    return {"dimension": instruction.proto.dimensions[0]}


def _infer_concatenate(
    operands: Sequence[Node], attributes: Attributes, _regions: object, _declared: object
) -> Type:
    axis = attributes["dimension"]
    return operands[0].tensor.with_axis(axis, sum(operand.shape[axis] for operand in operands))


def _slice_concatenate(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    return None if cut.axis == node["dimension"] else (cut,) * len(node.operands)


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
    Op(
        name="slice",
        opcodes=("slice",),
        read=_read_slice,
        infer=_infer_slice,
        flops=no_flops,
        fusion=Fusion.LOOP,
        slice=_slice_slice,
        chunk=_chunk_slice,
    ),
    Op(
        name="pad",
        opcodes=("pad",),
        read=_read_pad,
        infer=_infer_pad,
        flops=no_flops,
        fusion=Fusion.LOOP,
        slice=_slice_pad,
    ),
    Op(
        name="concatenate",
        opcodes=("concatenate",),
        read=_read_concatenate,
        infer=_infer_concatenate,
        flops=no_flops,
        fusion=Fusion.LOOP,
        slice=_slice_concatenate,
    ),
)
