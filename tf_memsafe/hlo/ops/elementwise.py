"""Ops that compute each element of the result from the same element of each operand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tf_memsafe.hlo.check import (
    require,
    require_count,
    require_same_dtype,
    require_same_shape,
)
from tf_memsafe.hlo.node import Attributes, Node
from tf_memsafe.hlo.op import (
    I32,
    Cut,
    Fusion,
    Instruction,
    Op,
    Symbol,
    declared_type,
    one_flop_per_element,
    register,
)
from tf_memsafe.hlo.types import Type

UNARY = {
    "abs": "abs",
    "cbrt": "cbrt",
    "ceil": "ceil",
    "cosine": "cosine",
    "count_leading_zeros": "count-leading-zeros",
    "exponential": "exponential",
    "exponential_minus_one": "exponential-minus-one",
    "floor": "floor",
    "log": "log",
    "log_plus_one": "log-plus-one",
    "logistic": "logistic",
    "negate": "negate",
    "not": "not",
    "popcnt": "popcnt",
    "round_nearest_afz": "round-nearest-afz",
    "round_nearest_even": "round-nearest-even",
    "rsqrt": "rsqrt",
    "sign": "sign",
    "sine": "sine",
    "sqrt": "sqrt",
    "tan": "tan",
    "tanh": "tanh",
}
BINARY = {
    "add": "add",
    "and": "and",
    "atan2": "atan2",
    "divide": "divide",
    "maximum": "maximum",
    "minimum": "minimum",
    "multiply": "multiply",
    "or": "or",
    "power": "power",
    "remainder": "remainder",
    "shift_left": "shift-left",
    "shift_right_arithmetic": "shift-right-arithmetic",
    "shift_right_logical": "shift-right-logical",
    "subtract": "subtract",
    "xor": "xor",
}
TRANSCENDENTAL_FLOPS = 10
"""What exp, log, tanh and their like cost beside an addition, within a factor of two on CPU."""


def same_axis(node: Node, cut: Cut) -> tuple[Cut | None, ...]:
    """Each operand is cut as the result is; a scalar operand (of clamp, select) is needed whole."""
    return tuple(cut if operand.shape == node.shape else None for operand in node.operands)


def _boolean(
    operands: Sequence[Node], _attributes: Attributes, _regions: object, _declared: object
) -> Type:
    require_same_shape(operands)
    require_same_dtype(operands)
    return operands[0].tensor.with_dtype("i1")


def _real(
    operands: Sequence[Node], _attributes: Attributes, _regions: object, _declared: object
) -> Type:
    dtype = operands[0].dtype.removeprefix("complex<").removesuffix(">")
    return operands[0].tensor.with_dtype(dtype)


def _complex(
    operands: Sequence[Node], _attributes: Attributes, _regions: object, _declared: object
) -> Type:
    require_same_shape(operands)
    require_same_dtype(operands)
    return operands[0].tensor.with_dtype(f"complex<{operands[0].dtype}>")


def _unary(
    operands: Sequence[Node], _attributes: Attributes, _regions: object, _declared: object
) -> Type:
    require_count(operands, 1)
    return operands[0].type


def _binary(
    operands: Sequence[Node], _attributes: Attributes, _regions: object, _declared: object
) -> Type:
    require_count(operands, 2)
    require_same_shape(operands)
    require_same_dtype(operands)
    return operands[0].type


def _select(
    operands: Sequence[Node], _attributes: Attributes, _regions: object, _declared: object
) -> Type:
    require_count(operands, 3)
    predicate, chosen, other = operands
    require(predicate.dtype == "i1", f"a select by {predicate.type}")
    return _with_scalars((predicate,), (chosen, other))


def _clamp(
    operands: Sequence[Node], _attributes: Attributes, _regions: object, _declared: object
) -> Type:
    require_count(operands, 3)
    low, operand, high = operands
    require_same_dtype(operands)
    return _with_scalars((low, high), (operand,))


def _with_scalars(maybe_scalars: Sequence[Node], others: Sequence[Node]) -> Type:
    """The type of `others`, if the rest has their shape or is a scalar."""
    require_same_dtype(others)
    require_same_shape((*others, *(node for node in maybe_scalars if node.shape)))
    return others[0].type


def _same_shape(
    operands: Sequence[Node], _attributes: Attributes, _regions: object, declared: Type | None
) -> Type:
    result = declared_type(operands, {}, (), declared)
    if getattr(result, "shape", None) != operands[0].shape:
        raise TypeError(f"{result} has another shape than the operand, {operands[0].type}")
    return result


def _read_compare(instruction: Instruction) -> Attributes:
    proto = instruction.proto
    return {
        "comparison_direction": Symbol("comparison_direction", proto.comparison_direction),
        "compare_type": Symbol("comparison_type", proto.comparison_type),
    }


def _read_reduce_precision(instruction: Instruction) -> Attributes:
    proto = instruction.proto
    return {"exponent_bits": I32(proto.exponent_bits), "mantissa_bits": I32(proto.mantissa_bits)}


def _transcendental_flops(node: Node) -> int:
    return TRANSCENDENTAL_FLOPS * one_flop_per_element(node)


CHEAP = {"abs", "ceil", "floor", "negate", "not", "sign", "round_nearest_afz", "round_nearest_even"}


def _row(name: str, opcode: str, **fields: Any) -> Op:
    return Op(name=name, opcodes=(opcode,), fusion=Fusion.LOOP, slice=same_axis, **fields)


register(
    *(
        _row(
            name,
            opcode,
            infer=_real if name == "abs" else _unary,
            flops=one_flop_per_element if name in CHEAP else _transcendental_flops,
        )
        for name, opcode in UNARY.items()
    ),
    *(_row(name, opcode, infer=_binary) for name, opcode in BINARY.items()),
    _row("erf", "erf", infer=_unary, flops=_transcendental_flops, dialect="chlo"),
    _row("real", "real", infer=_real),
    _row("imag", "imag", infer=_real),
    _row("is_finite", "is-finite", infer=_boolean),
    _row("complex", "complex", infer=_complex),
    _row("compare", "compare", infer=_boolean, read=_read_compare),
    _row("select", "select", infer=_select),
    _row("clamp", "clamp", infer=_clamp),
    _row("convert", "convert", infer=_same_shape),
    _row(
        "reduce_precision",
        "reduce-precision",
        infer=_unary,
        read=_read_reduce_precision,
    ),
)
