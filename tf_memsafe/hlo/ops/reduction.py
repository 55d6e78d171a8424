"""Reductions over whole axes by a region of their own: sum, max, any, argmax, variance."""

from __future__ import annotations

from collections.abc import Sequence

from tf_memsafe.hlo import build
from tf_memsafe.hlo.lift import can_lift, lift
from tf_memsafe.hlo.node import Attributes, Node, Region
from tf_memsafe.hlo.op import Contraction, Cut, Fusion, Instruction, Op, register
from tf_memsafe.hlo.types import Type


def _read(instruction: Instruction) -> Attributes:
    return {"dimensions": tuple(instruction.proto.dimensions)}


def _infer(
    operands: Sequence[Node], attributes: Attributes, regions: Sequence[Region], _declared: object
) -> Type:
    arrays = operands[: len(operands) // 2]
    if len(operands) != 2 * len(regions[0].results):
        raise TypeError("a reduce needs an initial value for each operand and result")
    kept = [
        size for axis, size in enumerate(arrays[0].shape) if axis not in attributes["dimensions"]
    ]
    return build.tuple_or_single([result.tensor.with_shape(kept) for result in regions[0].results])


def _flops(node: Node) -> int:
    arrays = node.operands[: len(node.operands) // 2]
    return sum(array.tensor.size for array in arrays)


def kept_axes(node: Node) -> list[int]:
    """The operand's axes that a reduce keeps, in order."""
    rank = node.operands[0].tensor.rank
    return [axis for axis in range(rank) if axis not in node["dimensions"]]


def _slice(node: Node, cut: Cut) -> tuple[Cut | None, ...]:
    count = len(node.operands) // 2
    return (cut._replace(axis=kept_axes(node)[cut.axis]),) * count + (None,) * count


def _contract(node: Node) -> list[Contraction]:
    if not can_lift(node.regions[0]):
        return []
    count = len(node.operands) // 2
    return [
        Contraction((axis,) * count + (None,) * count, _initial, _combine)
        for axis in node["dimensions"]
    ]


def _initial(node: Node) -> tuple[Node, ...]:
    initial = node.operands[len(node.operands) // 2 :]
    return tuple(
        build.broadcast(value, result.shape)
        for value, result in zip(initial, node.results, strict=True)
    )


def _combine(
    node: Node, accumulated: Sequence[Node], chunk: Sequence[Node], _start: Node
) -> tuple[Node, ...]:
    return lift(node.regions[0], (*accumulated, *chunk))


register(
    Op(
        name="reduce",
        opcodes=("reduce",),
        read=_read,
        infer=_infer,
        flops=_flops,
        fusion=Fusion.REDUCE,
        slice=_slice,
        contract=_contract,
    )
)
