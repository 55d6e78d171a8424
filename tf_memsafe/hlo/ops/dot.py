"""Matrix products: dot_general."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from tf_memsafe.hlo import build
from tf_memsafe.hlo.check import require, require_count
from tf_memsafe.hlo.node import Attributes, Node
from tf_memsafe.hlo.op import Contraction, Cut, Instruction, Op, Symbol, register
from tf_memsafe.hlo.types import TensorType, Type


class DotNumbers(NamedTuple):
    """Which axes of the two operands are batch axes and which are contracted, pair by pair."""

    lhs_batching: tuple[int, ...]
    rhs_batching: tuple[int, ...]
    lhs_contracting: tuple[int, ...]
    rhs_contracting: tuple[int, ...]

    def __str__(self) -> str:
        fields = ", ".join(f"{name}_dimensions = {list(axes)}" for name, axes in self._pairs())
        return f"#stablehlo.dot<{fields}>"

    def _pairs(self) -> list[tuple[str, tuple[int, ...]]]:
        return [(name, axes) for name, axes in self._asdict().items() if axes]

    def free_axes(self, side: int, rank: int) -> tuple[int, ...]:
        """The axes of operand `side` (0 or 1) that are neither batch axes nor contracted."""
        used = {*self[side], *self[side + 2]}
        return tuple(axis for axis in range(rank) if axis not in used)

    def shared_axes(self) -> list[tuple[int, int]]:
        """The pairs of axes, of the two operands, that have to be of one size."""
        batching = zip(self.lhs_batching, self.rhs_batching, strict=True)
        return [*batching, *zip(self.lhs_contracting, self.rhs_contracting, strict=True)]

    def result_axes(self, lhs_rank: int, rhs_rank: int) -> list[tuple[int | None, int | None]]:
        """For each axis of the result, the axis of each operand it comes from."""
        return [
            *zip(self.lhs_batching, self.rhs_batching, strict=True),
            *((axis, None) for axis in self.free_axes(0, lhs_rank)),
            *((None, axis) for axis in self.free_axes(1, rhs_rank)),
        ]


def _read(instruction: Instruction) -> Attributes:
    numbers = instruction.proto.dot_dimension_numbers
    precision = instruction.proto.precision_config
    names = instruction.enum(precision, "operand_precision") or ("DEFAULT", "DEFAULT")
    return {
        "dot_dimension_numbers": DotNumbers(
            tuple(numbers.lhs_batch_dimensions),
            tuple(numbers.rhs_batch_dimensions),
            tuple(numbers.lhs_contracting_dimensions),
            tuple(numbers.rhs_contracting_dimensions),
        ),
        "precision_config": tuple(Symbol("precision", name) for name in names),
    }


def _axes(operands: Sequence[Node], attributes: Attributes) -> list[tuple[int | None, int | None]]:
    numbers: DotNumbers = attributes["dot_dimension_numbers"]
    lhs, rhs = operands
    return numbers.result_axes(lhs.tensor.rank, rhs.tensor.rank)


def _infer(
    operands: Sequence[Node], attributes: Attributes, _regions: object, declared: Type | None
) -> Type:
    require_count(operands, 2)
    lhs, rhs = operands
    numbers: DotNumbers = attributes["dot_dimension_numbers"]
    for left, right in numbers.shared_axes():
        same = lhs.shape[left] == rhs.shape[right]
        require(same, f"axis {left} of {lhs.type} does not fit axis {right} of {rhs.type}")
    shape = [
        lhs.shape[left] if left is not None else rhs.shape[right]  # type: ignore[index]
        for left, right in _axes(operands, attributes)
    ]
    # The element type may be wider than the operands': it is the accumulator's.
    dtype = declared.dtype if isinstance(declared, TensorType) else lhs.dtype
    return TensorType(dtype, tuple(shape))


def _flops(node: Node) -> int:
    lhs, numbers = node.operands[0], node["dot_dimension_numbers"]
    inner = prod(lhs.shape[axis] for axis in numbers.lhs_contracting)
    return 2 * node.tensor.size * inner


def _slice(node: Node, cut: Cut) -> tuple[Cut | None, ...]:
    return tuple(
        None if axis is None else cut._replace(axis=axis)
        for axis in _axes(node.operands, node.attributes)[cut.axis]
    )


def _contract(node: Node) -> list[Contraction]:
    numbers: DotNumbers = node["dot_dimension_numbers"]
    pairs = zip(numbers.lhs_contracting, numbers.rhs_contracting, strict=True)
    return [Contraction(pair, zero_sums, add_chunk) for pair in pairs]


ACCUMULATORS = {"f16": "f32", "bf16": "f32"}
"""Where the sum over chunks needs more bits than the result, as it does inside one product."""


def zero_sums(node: Node) -> tuple[Node, ...]:
    return (build.zeros(node.tensor.with_dtype(ACCUMULATORS.get(node.dtype, node.dtype))),)


def add_chunk(
    _node: Node, accumulated: Sequence[Node], chunk: Sequence[Node], _start: Node
) -> tuple[Node, ...]:
    return (build.add(accumulated[0], build.convert(chunk[0], accumulated[0].dtype)),)


register(
    Op(
        name="dot_general",
        opcodes=("dot",),
        read=_read,
        infer=_infer,
        flops=_flops,
        slice=_slice,
        contract=_contract,
    )
)
