"""Ops whose result is part of an operand, or has operands as parts: slice, pad, concatenate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Attributes, Node
from tf_memsafe.hlo.op import Chunk, Cut, Fusion, Instruction, Op, Piece, no_flops, register
from tf_memsafe.hlo.types import Type


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
    """A step of the result is a step of the operand, if steps do not straddle where it starts."""
    start, stride = node["start_indices"][cut.axis], node["strides"][cut.axis]
    size, unit = node.operands[0].shape[cut.axis], cut.unit * stride
    # The last step takes the elements that the stride leaves out after it, too.
    if start % unit or size % unit or start + node.shape[cut.axis] * stride > size:
        return None
    return (Cut(cut.axis, unit, cut.first - start // unit),)


def _chunk_slice(node: Node, cut: Cut, operands: tuple[Node, ...], chunk: Chunk) -> Node:
    starts, limits = list(node["start_indices"]), list(node["limit_indices"])
    starts[cut.axis] = 0
    limits[cut.axis] = chunk.size * cut.unit * node["strides"][cut.axis]
    ends = {"start_indices": tuple(starts), "limit_indices": tuple(limits)}
    return build.emit("slice", operands, {**node.attributes, **ends}, source=node.source)


def _read_pad(instruction: Instruction) -> Attributes:
    edges = instruction.proto.padding_config.dimensions
    return {
        "edge_padding_low": tuple(e.edge_padding_low for e in edges),
        "edge_padding_high": tuple(e.edge_padding_high for e in edges),
        "interior_padding": tuple(e.interior_padding for e in edges),
    }


def _construct_pad(instruction: Instruction) -> Node:
    """One pad for each axis that is padded: an axis is cut where it alone is padded."""
    node, value = instruction.operands
    attributes = _read_pad(instruction)
    for axis, padding in enumerate(_paddings(attributes)):
        if padding != NO_PADDING:
            one = _along(axis, padding, node.tensor.rank)
            node = build.emit("pad", (node, value), one, source=instruction.source)
    return node


def _along(axis: int, padding: _Padding, rank: int) -> Attributes:
    """The attributes of a pad of one axis."""
    edges = {
        "edge_padding_low": padding.low,
        "edge_padding_high": padding.high,
        "interior_padding": padding.interior,
    }
    return {
        name: tuple(edge if at == axis else 0 for at in range(rank)) for name, edge in edges.items()
    }


class _Padding(NamedTuple):
    low: int
    high: int
    interior: int

    def padded(self, size: int) -> int:
        return self.low + size + max(0, size - 1) * self.interior + self.high


NO_PADDING = _Padding(0, 0, 0)


def _paddings(attributes: Attributes) -> list[_Padding]:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    return [_Padding(*edges) for edges in zip(*(attributes[name] for name in names), strict=True)]


def _infer_pad(
    operands: Sequence[Node], attributes: Attributes, _regions: object, _declared: object
) -> Type:
    pairs = zip(_paddings(attributes), operands[0].shape, strict=True)
    return operands[0].tensor.with_shape([padding.padded(size) for padding, size in pairs])


def _slice_pad(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    """What is added before and after the operand is computed apart from it."""
    paddings = _paddings(node.attributes)
    low, high, interior = paddings[cut.axis]
    others = [padding for axis, padding in enumerate(paddings) if axis != cut.axis]
    if paddings[cut.axis] == NO_PADDING:
        return cut, None
    size = node.operands[0].shape[cut.axis]
    left = size + min(low, 0) + min(high, 0)
    straddles = any(edge % cut.unit for edge in (low, high, size))
    if interior or straddles or left <= 0 or any(padding != NO_PADDING for padding in others):
        return None
    return cut._replace(first=cut.first + low // cut.unit), None


def _pieces_pad(node: Node, cut: Cut) -> list[Piece]:
    low, high, _ = _paddings(node.attributes)[cut.axis]
    if (low, high) == (0, 0):
        return []
    left = node.operands[0].shape[cut.axis] + min(low, 0) + min(high, 0)
    sizes = ((max(low, 0), 1), (left, 0), (max(high, 0), 1))
    return [Piece(size, operand) for size, operand in sizes if size]


def _read_concatenate(instruction: Instruction) -> Attributes:
    return {"dimension": instruction.proto.dimensions[0]}


def _infer_concatenate(
    operands: Sequence[Node], attributes: Attributes, _regions: object, _declared: object
) -> Type:
    axis = attributes["dimension"]
    return operands[0].tensor.with_axis(axis, sum(operand.shape[axis] for operand in operands))


def _slice_concatenate(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    """Along the axis they are joined, one operand begins where the one before ends."""
    if cut.axis != node["dimension"]:
        return (cut,) * len(node.operands)
    cuts, first = [], cut.first
    for operand in node.operands:
        steps, rest = divmod(operand.shape[cut.axis], cut.unit)
        if rest:
            return None
        cuts.append(cut._replace(first=first))
        first += steps
    return tuple(cuts)


def _pieces_concatenate(node: Node, cut: Cut) -> list[Piece]:
    if cut.axis != node["dimension"]:
        return []
    sizes = [operand.shape[cut.axis] for operand in node.operands]
    return [Piece(size, operand) for operand, size in enumerate(sizes) if size]


register(
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
        construct=_construct_pad,
        infer=_infer_pad,
        flops=no_flops,
        fusion=Fusion.LOOP,
        slice=_slice_pad,
        pieces=_pieces_pad,
    ),
    Op(
        name="concatenate",
        opcodes=("concatenate",),
        read=_read_concatenate,
        infer=_infer_concatenate,
        flops=no_flops,
        fusion=Fusion.LOOP,
        slice=_slice_concatenate,
        pieces=_pieces_concatenate,
    ),
)
