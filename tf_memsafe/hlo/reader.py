"""Reads an `HloModuleProto` into a `Graph`: tuples and calls are resolved away."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node, Region, Source, fresh_scope, make
from tf_memsafe.hlo.op import UnsupportedOpError, by_opcode
from tf_memsafe.hlo.types import TensorType, TupleType, Type

DTYPES = {
    "PRED": "i1",
    "S2": "i2",
    "S4": "i4",
    "S8": "i8",
    "S16": "i16",
    "S32": "i32",
    "S64": "i64",
    "U2": "ui2",
    "U4": "ui4",
    "U8": "ui8",
    "U16": "ui16",
    "U32": "ui32",
    "U64": "ui64",
    "F16": "f16",
    "BF16": "bf16",
    "F32": "f32",
    "F64": "f64",
    "C64": "complex<f32>",
    "C128": "complex<f64>",
    "F8E4M3FN": "f8E4M3FN",
    "F8E5M2": "f8E5M2",
    "F8E4M3B11FNUZ": "f8E4M3B11FNUZ",
    "F8E4M3FNUZ": "f8E4M3FNUZ",
    "F8E5M2FNUZ": "f8E5M2FNUZ",
}
"""StableHLO's name of each of XLA's primitive types that a program can hold."""

Value = Node | tuple["Value", ...]
"""What an HLO instruction computes: a tensor, or a tuple of values."""


@dataclass(frozen=True)
class ProtoInstruction:
    """An instruction with its operands resolved, as `Op.read` and `Op.construct` see it."""

    proto: Any
    operands: tuple[Node, ...]
    type: Type
    regions: tuple[Region, ...]
    source: Source | None

    def enum(self, message: Any, field: str) -> Any:
        descriptor = message.DESCRIPTOR.fields_by_name[field]
        names = descriptor.enum_type.values_by_number
        value = getattr(message, field)
        if isinstance(value, int):
            return names[value].name
        return tuple(names[number].name for number in value)


def read(module: Any) -> Graph:
    """The program of an `HloModuleProto`.

    Raises UnsupportedOpError for an instruction without a row.
    """
    reader = _Reader(module)
    entry = reader.region(module.entry_computation_id)
    return Graph(entry.parameters, entry.results)


class _Reader:
    def __init__(self, module: Any) -> None:
        self._computations = {computation.id: computation for computation in module.computations}
        # Nodes of two programs must not merge: each has sources of its own.
        self._program = fresh_scope()
        self._digests: dict[int, str] = {}
        self._regions: dict[str, Region] = {}
        self._structural: dict[str, Callable[[Any, list[Value]], Value]] = {
            "tuple": lambda _, operands: tuple(operands),
            "get-tuple-element": lambda proto, operands: operands[0][proto.tuple_index],
            "copy": lambda _, operands: operands[0],
            "call": self._call,
            "while": self._while,
            "conditional": self._conditional,
            "opt-barrier": self._barrier,
        }

    def region(self, computation_id: int) -> Region:
        """A computation as a region of its own; equal computations give the same region."""
        scope = f"{self._program}.{self._digest(computation_id)}"
        if scope not in self._regions:
            computation = self._computations[computation_id]
            counter = iter(range(1 << 31))
            arguments = [
                _parameters(shape, scope, counter) for shape in computation.program_shape.parameters
            ]
            results = _flatten(self._evaluate(computation, arguments))
            self._regions[scope] = Region(tuple(_flatten(tuple(arguments))), tuple(results))
        return self._regions[scope]

    def _digest(self, computation_id: int) -> str:
        """Equal for computations that differ in names and ids only."""
        if computation_id not in self._digests:
            computation = self._computations[computation_id]
            positions = {proto.id: n for n, proto in enumerate(computation.instructions)}
            digest = hashlib.sha256()
            for proto in computation.instructions:
                digest.update(_anonymous(proto))
                digest.update(repr([positions[i] for i in proto.operand_ids]).encode())
                digest.update("".join(map(self._digest, proto.called_computation_ids)).encode())
            digest.update(str(positions[computation.root_id]).encode())
            self._digests[computation_id] = digest.hexdigest()
        return self._digests[computation_id]

    def _evaluate(self, computation: Any, arguments: Sequence[Value]) -> Value:
        values: dict[int, Value] = {}
        for proto in computation.instructions:
            if proto.opcode == "parameter":
                values[proto.id] = arguments[proto.parameter_number]
            else:
                operands = [values[operand] for operand in proto.operand_ids]
                values[proto.id] = self._instruction(proto, operands)
        return values[computation.root_id]

    def _instruction(self, proto: Any, operands: list[Value]) -> Value:
        structural = self._structural.get(proto.opcode)
        if structural is not None:
            return structural(proto, operands)
        source = _source(proto)
        op = by_opcode(proto.opcode)
        if op is None:
            raise UnsupportedOpError(proto.opcode, source)
        regions = tuple(self.region(called) for called in proto.called_computation_ids)
        flat = tuple(_flatten(tuple(operands)))
        instruction = ProtoInstruction(proto, flat, read_type(proto.shape), regions, source)
        if op.construct is not None:
            node = op.construct(instruction)
        else:
            node = make(op, flat, instruction.type, op.read(instruction), regions, source)
        return node if isinstance(node.type, TensorType) else build.results(node)

    def _call(self, proto: Any, operands: list[Value]) -> Value:
        return self._evaluate(self._computations[proto.called_computation_ids[0]], operands)

    def _while(self, proto: Any, operands: list[Value]) -> Value:
        body, condition = (self.region(called) for called in proto.called_computation_ids)
        state = build.while_loop(_flatten(operands[0]), condition, body, _source(proto))
        return _unflatten(operands[0], iter(state))

    def _conditional(self, proto: Any, operands: list[Value]) -> Value:
        branches = zip(proto.called_computation_ids, operands[1:], strict=True)
        values = [
            self._evaluate(self._computations[called], [argument]) for called, argument in branches
        ]
        regions = [
            Region((), tuple(_flatten(value)), tuple(dict.fromkeys(_flatten(argument))))
            for value, argument in zip(values, operands[1:], strict=True)
        ]
        (chosen,) = _flatten(operands[0])
        name = "if" if chosen.dtype == "i1" else "case"
        node = build.emit(name, (chosen,), regions=regions, source=_source(proto))
        return _unflatten(values[0], iter(build.results(node)))

    def _barrier(self, proto: Any, operands: list[Value]) -> Value:
        flat = _flatten(tuple(operands))
        node = build.emit("optimization_barrier", flat, source=_source(proto))
        value = operands[0] if len(operands) == 1 else tuple(operands)
        return _unflatten(value, iter(build.results(node)))


def variable_updates(module: Any) -> dict[int, int]:
    """Which parameter (a variable's value) each extra output of an HloModuleProto replaces."""
    return {
        entry.output_shape_index[0] if entry.output_shape_index else 0: entry.parameter_number
        for entry in module.input_output_alias.entries
    }


def read_type(shape: Any) -> Type:
    """The type that a ShapeProto (xla/xla_data.proto) stands for."""
    name = _primitive(shape)
    if name == "TUPLE":
        elements = tuple(read_type(element) for element in shape.tuple_shapes)
        return TupleType(tuple(e for e in elements if isinstance(e, TensorType)))
    if name not in DTYPES:
        raise UnsupportedOpError(f"a value of type {name}", None)
    dynamic = tuple(shape.is_dynamic_dimension)
    return TensorType(DTYPES[name], tuple(shape.dimensions), dynamic if any(dynamic) else ())


def _primitive(shape: Any) -> str:
    field = shape.DESCRIPTOR.fields_by_name["element_type"]
    return str(field.enum_type.values_by_number[shape.element_type].name)


def _parameters(shape: Any, scope: str, counter: Iterator[int]) -> Value:
    """The parameter nodes of one HLO parameter, which may be a tuple."""
    if _primitive(shape) == "TUPLE":
        return tuple(_parameters(element, scope, counter) for element in shape.tuple_shapes)
    type_ = read_type(shape)
    assert isinstance(type_, TensorType)
    return build.parameter(next(counter), type_, scope)


def _flatten(value: Value) -> list[Node]:
    if isinstance(value, Node):
        return [value]
    return [node for element in value for node in _flatten(element)]


def _unflatten(like: Value, nodes: Iterator[Node]) -> Value:
    if isinstance(like, Node):
        return next(nodes)
    return tuple(_unflatten(element, nodes) for element in like)


def _source(proto: Any) -> Source | None:
    metadata = proto.metadata
    return Source(metadata.op_type, metadata.op_name) if metadata.op_name else None


_NAMES: Iterable[str] = (
    "name",
    "id",
    "operand_ids",
    "called_computation_ids",
    "metadata",
    "frontend_attributes",
    "statistics_viz",
    "original_value",
)


def _anonymous(proto: Any) -> bytes:
    """The instruction without what names it or says where it came from."""
    copy = type(proto)()
    copy.CopyFrom(proto)
    for field in _NAMES:
        copy.ClearField(field)
    return bytes(copy.SerializeToString(deterministic=True))
