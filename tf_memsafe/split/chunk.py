"""The node that computes one chunk of another."""

from __future__ import annotations

from collections.abc import Sequence

from tf_memsafe.hlo.node import Node, make
from tf_memsafe.hlo.op import Chunk, Contraction, Cut
from tf_memsafe.hlo.types import TensorType, TupleType, Type


def chunk_node(node: Node, cut: Cut, operands: Sequence[Node], chunk: Chunk) -> Node:
    """A chunk of the node along `cut`, from what the op's axis rule asks of each operand."""
    if node.op.chunk is not None:
        return node.op.chunk(node, cut, tuple(operands), chunk)
    type_ = _cut_type(node.type, cut, chunk.size)
    return make(node.op, operands, type_, node.attributes, node.regions, node.source)


def with_operands(node: Node, operands: Sequence[Node]) -> Node:
    """The node on one chunk of the axis that it reduces away: the same type, smaller operands."""
    return make(node.op, operands, node.type, node.attributes, node.regions, node.source)


def contracted_chunk(node: Node, contraction: Contraction) -> Node:
    """What the op makes of the chunk that the node's operands are."""
    return contraction.chunk(node, node.operands) if contraction.chunk else node


def _cut_type(type_: Type, cut: Cut, size: int) -> Type:
    if isinstance(type_, TensorType):
        return type_.with_axis(cut.axis, size * cut.unit)
    return TupleType(tuple(e.with_axis(cut.axis, size * cut.unit) for e in type_.elements))
