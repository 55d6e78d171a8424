"""The buffers that XLA reserves for a call of a compiled function: what the limit counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tf_memsafe.hlo.node import Source
from tf_memsafe.hlo.op import UnsupportedOpError
from tf_memsafe.hlo.reader import read_type
from tf_memsafe.hlo.types import TensorType, TupleType, Type


@dataclass(frozen=True)
class Allocation:
    """One buffer that XLA reserves for a call: its bytes and what they hold."""

    bytes: int
    kind: str  # "argument", "result", "constant" or "temporary"
    parameter: int | None = None


@dataclass(frozen=True)
class HeapEvent:
    """A step of XLA's memory timeline: what `instruction` made takes (or frees, if < 0) bytes."""

    instruction: str
    bytes: int


@dataclass(frozen=True)
class Instruction:
    """What made a buffer: an instruction of the program as XLA optimised it.

    type: None for what is no tensor. source: the TensorFlow op that it came from. line: of the
    StableHLO text that it came from, from 1 on; 0 if there is none.
    """

    opcode: str
    type: Type | None
    source: Source
    line: int

    def tensor(self, count: int) -> TensorType | None:
        """Its result, or that of its results, that takes `count` bytes."""
        results = self.type.elements if isinstance(self.type, TupleType) else (self.type,)
        return next((each for each in results if each and each.bytes == count), None)


@dataclass(frozen=True)
class BufferAssignment:
    """What a compiled function needs at once, as XLA itself lays it out.

    exact: whether XLA compiled it. has_timeline: whether what it said has one, empty or not.
    instructions: those of the timeline, by name.
    """

    allocations: tuple[Allocation, ...]
    timeline: tuple[HeapEvent, ...] = ()
    exact: bool = True
    has_timeline: bool = True
    instructions: Mapping[str, Instruction] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def estimated(cls, peak: int) -> BufferAssignment:
        """A stand-in for where nothing is compiled, because a bound settles the question."""
        return cls((Allocation(peak, "estimate"),), exact=False, has_timeline=False)

    @property
    def peak(self) -> int:
        """Bytes of arguments, results, constants and temporaries together."""
        return sum(allocation.bytes for allocation in self.allocations)

    def bytes_of(self, kind: str) -> int:
        return sum(a.bytes for a in self.allocations if a.kind == kind)


def read_buffers(optimized: Any) -> BufferAssignment:
    """What an HloProto that XLA has optimised needs; its proto is xla/service/hlo.proto."""
    assignment = optimized.buffer_assignment
    sizes = {buffer.id: buffer.size for buffer in assignment.logical_buffers}
    timeline = [
        event for trace in assignment.heap_simulator_traces for event in _events(trace, sizes)
    ]
    allocations = [*map(_allocation, assignment.buffer_allocations)]
    allocations += [Allocation(size, "temporary") for size in _inside_library_calls(optimized)]
    named = {event.instruction for event in timeline}
    instructions = dict(_instructions(optimized.hlo_module, named))
    return BufferAssignment(tuple(allocations), tuple(timeline), instructions=instructions)


def _events(trace: Any, sizes: Mapping[int, int]) -> Iterator[HeapEvent]:
    """What is taken and freed; a buffer that others share is freed with the last of them.

    A result that is written over an operand shares its buffer, which may be freed right before.
    """
    owners: dict[int, int] = {}
    makers: dict[int, str] = {}
    sharers = Counter[int]()
    for event in trace.events:
        if event.kind == event.ALLOC:
            owners[event.buffer_id] = event.buffer_id
            makers[event.buffer_id] = event.instruction_name
        elif event.kind == event.SHARE_WITH:
            owners[event.buffer_id] = owners[event.share_with_canonical_id]
        owner = owners[event.buffer_id]
        taken = sharers[owner]
        sharers[owner] += -1 if event.kind == event.FREE else 1
        change = bool(sharers[owner]) - bool(taken)
        if change and sizes.get(owner):
            yield HeapEvent(makers[owner], change * sizes[owner])


def _instructions(module: Any, names: set[str]) -> Iterator[tuple[str, Instruction]]:
    for computation in module.computations:
        for each in computation.instructions:
            if each.name in names:
                metadata = each.metadata
                source = Source(metadata.op_type, metadata.op_name)
                # A program that was read as text has its lines, under the name of no file.
                line = metadata.source_line if metadata.source_file == "-" else 0
                yield each.name, Instruction(each.opcode, _type(each.shape), source, line)


def _type(shape: Any) -> Type | None:
    try:
        return read_type(shape)
    except UnsupportedOpError:
        return None


def _allocation(proto: Any) -> Allocation:
    if proto.is_entry_computation_parameter:
        return Allocation(proto.size, "argument", proto.parameter_number)
    if proto.is_constant:
        return Allocation(proto.size, "constant")
    return Allocation(proto.size, "result" if proto.maybe_live_out else "temporary")


# --- what the buffer assignment leaves out ---


YNN_FUSION = b"__ynn_fusion"
"""How XLA's CPU back end names what it hands to the YNNPACK library as one call."""


def _inside_library_calls(optimized: Any) -> Iterator[int]:
    """Bytes of each matrix product that YNNPACK allocates by itself, all taken to be live at once.

    It computes a product and a reduction of it in one call. The product is computed tile by tile,
    but for one whose rows and columns are both reduced: that exists whole.
    """
    computations = {each.id: each for each in optimized.hlo_module.computations}
    for caller in optimized.hlo_module.computations:
        for fusion in caller.instructions:
            if fusion.opcode == "fusion" and YNN_FUSION in fusion.backend_config:
                for called in fusion.called_computation_ids:
                    yield from _whole_products(computations[called])


def _whole_products(computation: Any) -> Iterator[int]:
    for product in computation.instructions:
        if product.opcode == "dot" and product.id != computation.root_id:
            users = [each for each in computation.instructions if product.id in each.operand_ids]
            if not all(_is_tiled(product, user) for user in users):
                yield read_type(product.shape).bytes


def _is_tiled(product: Any, user: Any) -> bool:
    """Whether the user reduces a matrix product, but leaves it a row or column axis."""
    batch = len(product.dot_dimension_numbers.lhs_batch_dimensions)
    left = set(range(batch, len(product.shape.dimensions))) - set(user.dimensions)
    return user.opcode == "reduce" and any(product.shape.dimensions[axis] > 1 for axis in left)
