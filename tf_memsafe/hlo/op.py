"""What the program knows of an op: one `Op` row, registered by the file of its family."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, NamedTuple, Protocol

from tf_memsafe.hlo.node import NO_ATTRIBUTES, Attributes, Node, Region, Source
from tf_memsafe.hlo.types import TensorType, Type


class UnsupportedOpError(Exception):
    """The program has an instruction that no op row reads; `opcode` names it."""

    def __init__(self, opcode: str, source: Source | None) -> None:
        origin = f" (from the TensorFlow op {source.op_name!r}, {source.op_type})" if source else ""
        super().__init__(f"tf_memsafe has no op for HLO's {opcode!r}{origin}")
        self.opcode = opcode
        self.source = source


class Fusion(Enum):
    """What XLA makes of an op when it lays out buffers."""

    FREE = "free"  # no buffer of its own: a view, a constant, a parameter
    LOOP = "loop"  # computed inside its consumer's loop
    REDUCE = "reduce"  # takes its producers into its loop, and writes a buffer
    CALL = "call"  # a library call or a loop of its own: operands and result are buffers


class Cut(NamedTuple):
    """A tensor taken in chunks along `axis`; one step of the loop covers `unit` elements of it.

    first: the step at which the axis begins. An axis rule moves it for an operand of which the
    result's axis is a part, or that is a part of it; elsewhere it is passed on.
    """

    axis: int
    unit: int = 1
    first: int = 0


class Piece(NamedTuple):
    """A run of `size` elements along an axis that comes from one operand alone.

    An operand that the axis rule does not cut is a scalar, and repeated.
    """

    size: int
    operand: int


class Carry(NamedTuple):
    """How chunks of a cumulative op are computed one after the other.

    backwards: whether the last chunk comes first.
    initial: what the first chunk is given: a value of the result's shape, with one element along
    the axis.
    chunk(operands, carried): a chunk of the result, and what the next one is given.
    """

    backwards: bool
    initial: Node
    chunk: Callable[[Sequence[Node], Node], tuple[Node, Node]]


class Contraction(NamedTuple):
    """An axis that an op reduces away, so that chunks of it are combined.

    `axes`: the axis in each operand, None where the operand is needed whole in each chunk.
    `initial(node)`: the accumulators before the first chunk, one for each result of the node; they
    may be wider than the results, to which they are converted after the last chunk.
    `combine(node, accumulated, chunk, start)`: one value for each result of the node, from those
    accumulated and the chunk's; `start` is the chunk's first position on the axis, a scalar i32.
    `chunk(node, operands)`: what the op makes of one chunk, where that is not the same op again.
    `flops`: of combining, for each element of the result.
    `ordered`: the chunks have to come in the order of the axis.
    """

    axes: tuple[int | None, ...]
    initial: Callable[[Node], tuple[Node, ...]]
    combine: Callable[[Node, Sequence[Node], Sequence[Node], Node], tuple[Node, ...]]
    chunk: Callable[[Node, Sequence[Node]], Node] | None = None
    flops: int = 1
    ordered: bool = False


class Instruction(Protocol):
    """An HLO instruction as a row's `read` sees it; the reader makes it."""

    @property
    def proto(self) -> Any:
        """The HloInstructionProto."""

    @property
    def operands(self) -> tuple[Node, ...]: ...

    @property
    def type(self) -> Type: ...

    @property
    def regions(self) -> tuple[Region, ...]: ...

    @property
    def source(self) -> Source | None: ...

    def enum(self, message: Any, field: str) -> Any:
        """The name of the enum value that `message.field` holds; a tuple if it is repeated."""


class I32(NamedTuple):
    """An integer attribute that StableHLO wants in 32 bits; plain ints are written in 64."""

    value: int

    def __str__(self) -> str:
        return f"{self.value} : i32"


class Chunk(NamedTuple):
    """Some steps of a loop: from step `offset` (a scalar i32 node) on, `size` of them."""

    offset: Node
    size: int


Read = Callable[[Instruction], Attributes]
Infer = Callable[[Sequence[Node], Attributes, Sequence[Region], Type | None], Type]
Slice = Callable[[Node, Cut], tuple[Cut | None, ...] | None]
Contract = Callable[[Node], Sequence[Contraction]]
MakeChunk = Callable[[Node, Cut, tuple[Node, ...], Chunk], Node]
MakePieces = Callable[[Node, Cut], Sequence[Piece]]
MakeCarry = Callable[[Node, Cut], Carry | None]


def no_attributes(_: Instruction) -> Attributes:
    return NO_ATTRIBUTES


def declared_type(
    _operands: Sequence[Node], _attributes: Attributes, _regions: object, declared: Type | None
) -> Type:
    """For an op whose result type cannot be derived: it is what the program says."""
    if declared is None:
        raise TypeError("this op's result type has to be given")
    return declared


def same_as_first_operand(
    operands: Sequence[Node], _attributes: Attributes, _regions: object, _declared: object
) -> Type:
    return operands[0].type


def not_sliced(_node: Node, _cut: Cut) -> None:
    """The axis rule of an op of which no chunk can be computed alone."""
    return None


def not_contracted(_node: Node) -> Sequence[Contraction]:
    return ()


def one_piece(_node: Node, _cut: Cut) -> Sequence[Piece]:
    return ()


def not_carried(_node: Node, _cut: Cut) -> None:
    return None


def one_flop_per_element(node: Node) -> int:
    return sum(result.size for result in node.results)


def no_flops(_: Node) -> int:
    return 0


def no_workspace(_: Node) -> int:
    return 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Op:
    """One row: everything the program knows of an op.

    name: StableHLO's name, without the dialect.
    opcodes: HLO's opcodes it is read from.
    read: an HLO instruction's attributes, under StableHLO's names.
    infer: the result type, from operands, attributes, regions and the type the program declares
        (None when a builder leaves it open). TypeError if the operands do not fit.
    flops: of the whole result.
    fusion: what XLA makes of it when it lays out buffers.
    workspace: bytes that it needs while it runs, beside its operands and its result.
    slice: for a cut of the result, the cut of each operand that is enough to compute it, None for
        an operand that is needed whole; or None if no chunk can be computed alone.
    contract: the reduced axes, along which chunks are combined.
    chunk: the node for one chunk of the result, from chunks of its operands; None for the same op
        and attributes with a smaller type.
    pieces: the runs along the cut axis that come from one operand each; none for an op all of whose
        operands are needed for each element.
    carry: how a chunk is computed after the one before, where it cannot be computed alone.
    construct: makes the node, for an instruction that differs in more than attributes.
    write: the attributes as StableHLO text, for a row whose attributes are not written one by one.
    effects: never merged, recomputed or cut.
    """

    name: str
    opcodes: tuple[str, ...] = ()
    read: Read = no_attributes
    infer: Infer = declared_type
    flops: Callable[[Node], int] = one_flop_per_element
    fusion: Fusion = Fusion.CALL
    workspace: Callable[[Node], int] = no_workspace
    slice: Slice = not_sliced
    contract: Contract = not_contracted
    chunk: MakeChunk | None = None
    pieces: MakePieces = one_piece
    carry: MakeCarry = not_carried
    construct: Callable[[Instruction], Node] | None = None
    write: Callable[[Node], str] | None = None
    dialect: str = "stablehlo"
    effects: bool = False


class Symbol(NamedTuple):
    """An enum attribute of the dialect: `#stablehlo<transpose NO_TRANSPOSE>`."""

    kind: str
    value: str

    def __str__(self) -> str:
        return f"#stablehlo<{self.kind} {self.value}>"


_by_name: dict[str, Op] = {}
_by_opcode: dict[str, Op] = {}


def register(*ops: Op) -> None:
    """Adds rows; a family's file calls it once."""
    for op in ops:
        if op.name in _by_name:
            raise ValueError(f"the op {op.name!r} is registered twice")
        _by_name[op.name] = op
        _by_opcode.update(dict.fromkeys(op.opcodes, op))


def by_name(name: str) -> Op:
    """The row of a StableHLO name; KeyError if there is none."""
    if name not in _by_name:
        _load_families()
    return _by_name[name]


def by_opcode(opcode: str) -> Op | None:
    """The row that reads an HLO opcode, or None."""
    _load_families()
    return _by_opcode.get(opcode)


def all_ops() -> tuple[Op, ...]:
    _load_families()
    return tuple(_by_name.values())


@cache
def _load_families() -> None:
    families = importlib.import_module("tf_memsafe.hlo.ops")
    for module in pkgutil.iter_modules(families.__path__):
        importlib.import_module(f"{families.__name__}.{module.name}")


def sliced(node: Node, cut: Cut, size: int) -> TensorType:
    """The node's type when `size` steps of `cut` are taken."""
    return node.tensor.with_axis(cut.axis, size * cut.unit)
