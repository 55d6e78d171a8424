"""Slices at positions that are data: dynamic_slice and dynamic_update_slice."""

from __future__ import annotations

from collections.abc import Sequence

from tf_memsafe.hlo import build
from tf_memsafe.hlo.check import require, require_same_dtype, require_scalars
from tf_memsafe.hlo.node import Attributes, Node
from tf_memsafe.hlo.op import Chunk, Cut, Fusion, Instruction, Op, no_flops, register
from tf_memsafe.hlo.types import Type


def _read_dynamic_slice(instruction: Instruction) -> Attributes:
    return {"slice_sizes": tuple(instruction.proto.dynamic_slice_sizes)}


def _require_starts(starts: Sequence[Node], rank: int) -> None:
    require(len(starts) == rank, f"a tensor of rank {rank} needs {rank} starts, not {len(starts)}")
    require_scalars(starts)
    require_same_dtype(starts)


def _infer_dynamic_slice(
    operands: Sequence[Node], attributes: Attributes, _regions: object, _declared: object
) -> Type:
    operand, *starts = operands
    _require_starts(starts, operand.tensor.rank)
    sizes = attributes["slice_sizes"]
    for size, available in zip(sizes, operand.shape, strict=True):
        require(0 <= size <= available, f"a slice of {size} does not fit an axis of {available}")
    return operand.tensor.with_shape(sizes)


def _slice_dynamic_slice(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    """Only an axis that is taken whole: there any start is clamped to 0, in a chunk as well."""
    operand, *starts = node.operands
    whole = operand.shape[cut.axis] == node.shape[cut.axis]
    return (cut, *(None for _ in starts)) if whole else None


def _chunk_dynamic_slice(node: Node, cut: Cut, operands: tuple[Node, ...], chunk: Chunk) -> Node:
    sizes = list(node["slice_sizes"])
    sizes[cut.axis] = chunk.size * cut.unit
    return build.emit("dynamic_slice", operands, {"slice_sizes": tuple(sizes)}, source=node.source)


def _infer_dynamic_update_slice(
    operands: Sequence[Node], _attributes: Attributes, _regions: object, _declared: object
) -> Type:
    operand, update, *starts = operands
    _require_starts(starts, operand.tensor.rank)
    require_same_dtype((operand, update))
    for size, available in zip(update.shape, operand.shape, strict=True):
        require(size <= available, f"an update of {size} does not fit an axis of {available}")
    return operand.type


def _slice_dynamic_update_slice(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    operand, update, *starts = node.operands
    whole = operand.shape[cut.axis] == update.shape[cut.axis]
    return (cut, cut, *(None for _ in starts)) if whole else None


register(
    Op(
        name="dynamic_slice",
        opcodes=("dynamic-slice",),
        read=_read_dynamic_slice,
        infer=_infer_dynamic_slice,
        flops=no_flops,
        fusion=Fusion.LOOP,
        slice=_slice_dynamic_slice,
        chunk=_chunk_dynamic_slice,
    ),
    Op(
        name="dynamic_update_slice",
        opcodes=("dynamic-update-slice",),
        infer=_infer_dynamic_update_slice,
        flops=no_flops,
        fusion=Fusion.REDUCE,
        slice=_slice_dynamic_update_slice,
    ),
)
