"""What every program is made of: parameters, constants, results of ops that have several."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Attributes, Node
from tf_memsafe.hlo.op import Cut, Fusion, Instruction, Op, no_flops, register
from tf_memsafe.hlo.types import TensorType, Type

_PLAIN_FIELDS = {
    "i1": "preds",
    "i32": "s32s",
    "i64": "s64s",
    "ui32": "u32s",
    "ui64": "u64s",
    "f32": "f32s",
    "f64": "f64s",
    "complex<f32>": "c64s",
    "complex<f64>": "c128s",
}
_BYTE_FIELDS = {
    "i8": "s8s",
    "ui8": "u8s",
    "i16": "s16s",
    "ui16": "u16s",
    "f16": "f16s",
    "bf16": "bf16s",
    "i4": "s4s",
    "ui4": "u4s",
    "f8E4M3FN": "f8e4m3fns",
    "f8E5M2": "f8e5m2s",
    "f8E4M3B11FNUZ": "f8e4m3b11fnuzs",
    "f8E4M3FNUZ": "f8e4m3fnuzs",
    "f8E5M2FNUZ": "f8e5m2fnuzs",
}
_REAL_PART = {"complex<f32>": np.float32, "complex<f64>": np.float64}


def _construct_constant(instruction: Instruction) -> Node:
    type_ = instruction.type
    assert isinstance(type_, TensorType)
    return build.constant(_array(instruction.proto.literal, type_), type_, instruction.source)


def _array(literal: object, type_: TensorType) -> np.ndarray:
    dtype = build.NUMPY_DTYPES[type_.dtype]
    if type_.dtype in _BYTE_FIELDS:
        return np.frombuffer(getattr(literal, _BYTE_FIELDS[type_.dtype]), dtype)
    numbers = getattr(literal, _PLAIN_FIELDS[type_.dtype])
    # A complex literal is stored as alternating real and imaginary parts.
    return np.array(numbers, _REAL_PART.get(type_.dtype, dtype)).view(dtype)


def literal(node: Node) -> np.ndarray:
    """A constant's elements, flat; one element if they are all the same."""
    return np.frombuffer(node["value"], build.NUMPY_DTYPES[node.dtype])


def is_splat(node: Node) -> bool:
    """Whether the node is a constant that repeats one value."""
    return node.name == "constant" and node.tensor.size > 0 and len(literal(node)) == 1


def _write_constant(node: Node) -> str:
    if node.tensor.size == 0:
        body = ""
    elif node.dtype in ("i1", "i4", "ui4"):  # MLIR packs these in its hexadecimal form
        array = literal(node).astype(np.int8 if node.dtype != "i1" else np.bool_)
        body = json.dumps(array[0].item() if is_splat(node) else array.reshape(node.shape).tolist())
    else:
        body = f'"0x{node["value"].hex().upper()}"'
    return f"value = dense<{body}> : {node.type}"


def _slice_constant(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    return () if is_splat(node) else None


def _infer_element(
    operands: Sequence[Node], attributes: Attributes, _regions: object, _declared: object
) -> Type:
    return operands[0].results[attributes["index"]]


def _slice_element(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    """The results of one op are cut alike, so they have to have one shape."""
    shapes = {result.shape for result in node.operands[0].results}
    return (cut,) if len(shapes) == 1 else None


register(
    Op(name="parameter", fusion=Fusion.FREE, flops=no_flops),
    Op(
        name="constant",
        opcodes=("constant",),
        construct=_construct_constant,
        write=_write_constant,
        fusion=Fusion.FREE,
        flops=no_flops,
        slice=_slice_constant,
    ),
    Op(
        name="get_tuple_element",
        fusion=Fusion.FREE,
        flops=no_flops,
        infer=_infer_element,
        slice=_slice_element,
    ),
)
