"""The rest: map, bit casts, and sizes that are data."""

from __future__ import annotations

from collections.abc import Sequence

from tf_memsafe.hlo import build
from tf_memsafe.hlo.check import require, require_count, require_same_shape
from tf_memsafe.hlo.node import Attributes, Node, Region
from tf_memsafe.hlo.op import (
    Cut,
    Fusion,
    Instruction,
    Op,
    UnsupportedOpError,
    declared_type,
    no_flops,
    register,
)
from tf_memsafe.hlo.ops.elementwise import same_axis
from tf_memsafe.hlo.ops.structure import literal
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.types import BITS, TensorType, Type

# --- map ----------------------------------------------------------------------------------------


def _read_map(instruction: Instruction) -> Attributes:
    return {"dimensions": tuple(instruction.proto.dimensions)}


def _infer_map(
    operands: Sequence[Node], attributes: Attributes, regions: Sequence[Region], _declared: object
) -> Type:
    require_same_shape(operands)
    first = operands[0].tensor
    everything = attributes["dimensions"] == tuple(range(first.rank))
    require(everything, "a map runs over all axes")
    return first.with_dtype(regions[0].results[0].dtype)


def _flops_map(node: Node) -> int:
    inside = topological(node.regions[0].results)
    return node.tensor.size * sum(inner.op.flops(inner) for inner in inside)


# --- bitcast_convert ----------------------------------------------------------------------------


def _infer_bitcast(
    operands: Sequence[Node], attributes: Attributes, regions: object, declared: Type | None
) -> Type:
    require_count(operands, 1)
    result = declared_type(operands, attributes, regions, declared)
    operand = operands[0].tensor
    assert isinstance(result, TensorType)
    shape = operand.shape
    before, after = BITS[operand.dtype], BITS[result.dtype]
    if before > after:
        shape = (*shape, before // after)
    elif before < after:
        require(shape[-1:] == (after // before,), f"{operand} cannot be cast to {result}")
        shape = shape[:-1]
    require(result.shape == shape, f"{operand} cannot be cast to {result}")
    return result


def _slice_bitcast(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    """The axis that a wide element's parts are spread along is the last, and stays whole."""
    return (cut,) if cut.axis < node.operands[0].tensor.rank else None


# --- sizes --------------------------------------------------------------------------------------


def _construct_get_size(instruction: Instruction) -> Node:
    """Every size is static here, so this is a constant."""
    (axis,) = instruction.proto.dimensions
    return build.index(instruction.operands[0].shape[axis])


DATA_SIZE = "set-dimension-size to a size that is data"
"""What is said to be unsupported where a dimension's size is not known before the program runs."""


def _construct_set_size(instruction: Instruction) -> Node:
    """To set the size that an axis has changes nothing; other sizes cannot be run.

    XlaCallModule refuses a program with a dimension whose size is only known when it runs.
    """
    operand, size = instruction.operands
    (axis,) = instruction.proto.dimensions
    if size.name == "constant" and literal(size)[0] == operand.shape[axis]:
        return operand
    raise UnsupportedOpError(DATA_SIZE, instruction.source)


register(
    Op(
        name="map",
        opcodes=("map",),
        read=_read_map,
        infer=_infer_map,
        flops=_flops_map,
        fusion=Fusion.LOOP,
        slice=same_axis,
    ),
    Op(
        name="bitcast_convert",
        opcodes=("bitcast-convert",),
        infer=_infer_bitcast,
        flops=no_flops,
        fusion=Fusion.LOOP,
        slice=_slice_bitcast,
    ),
    Op(name="get_dimension_size", opcodes=("get-dimension-size",), construct=_construct_get_size),
    Op(name="set_dimension_size", opcodes=("set-dimension-size",), construct=_construct_set_size),
)
