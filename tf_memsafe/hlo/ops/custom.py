"""Calls that the graph cannot look into: they are passed through as they are."""

from __future__ import annotations

from typing import Any, NamedTuple

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.op import I32, Instruction, Op, UnsupportedOpError, register
from tf_memsafe.hlo.types import TupleType

TYPED_FFI = 4
"""The API version whose configuration is a dictionary of attributes, not a string."""


class Dictionary(NamedTuple):
    """An attribute that is MLIR text already."""

    text: str

    def __str__(self) -> str:
        return self.text or "{}"


def _construct(instruction: Instruction) -> Node:
    proto = instruction.proto
    obstacle = _obstacle(instruction)
    if obstacle:
        call = f"custom-call of {proto.custom_call_target} with {obstacle}"
        raise UnsupportedOpError(call, instruction.source)
    version, configuration = proto.custom_call_api_version or 1, proto.backend_config.decode()
    attributes: dict[str, Any] = {
        "call_target_name": proto.custom_call_target,
        "api_version": I32(version),
        "backend_config": Dictionary(configuration) if version == TYPED_FFI else configuration,
    }
    type_, source = instruction.type, instruction.source
    return build.emit("custom_call", instruction.operands, attributes, type=type_, source=source)


def _obstacle(instruction: Instruction) -> str | None:
    """What of the call StableHLO, or a graph of values, cannot carry."""
    proto, type_ = instruction.proto, instruction.type
    obstacles = {
        "computations": bool(instruction.regions),
        "a side effect": proto.custom_call_has_side_effect,
        "layouts": proto.constrain_layout,
        "results in its operands' buffers": bool(proto.output_operand_aliasing),
        "a tuple of one result": isinstance(type_, TupleType) and len(type_.elements) == 1,
    }
    return next((name for name, found in obstacles.items() if found), None)


register(Op(name="custom_call", opcodes=("custom-call",), construct=_construct))
