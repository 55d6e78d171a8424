"""Scatter: updates written, or combined by a region, at positions that are data."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from tf_memsafe.hlo import build
from tf_memsafe.hlo.check import require
from tf_memsafe.hlo.lift import lift
from tf_memsafe.hlo.node import Attributes, Node, Region
from tf_memsafe.hlo.op import Chunk, Contraction, Cut, Instruction, Op, register
from tf_memsafe.hlo.ops.gather import IndexNumbers, index_numbers
from tf_memsafe.hlo.ops.structure import is_splat, literal
from tf_memsafe.hlo.types import BITS, TensorType, Type


class _Parts(NamedTuple):
    """A scatter's operands: as many inputs and updates as it has results."""

    inputs: tuple[Node, ...]
    indices: Node
    updates: tuple[Node, ...]


def _parts(operands: Sequence[Node]) -> _Parts:
    count = len(operands) // 2
    require(len(operands) == 2 * count + 1, "a scatter needs an update for each input")
    return _Parts(tuple(operands[:count]), operands[count], tuple(operands[count + 1 :]))


def _read_scatter(instruction: Instruction) -> Attributes:
    proto = instruction.proto
    return {
        "scatter_dimension_numbers": index_numbers("scatter", proto.scatter_dimension_numbers),
        "indices_are_sorted": proto.indices_are_sorted,
        "unique_indices": proto.unique_indices,
    }


def _infer_scatter(
    operands: Sequence[Node],
    attributes: Attributes,
    regions: Sequence[Region],
    _declared: object,
) -> Type:
    inputs, indices, updates = _parts(operands)
    numbers: IndexNumbers = attributes["scatter_dimension_numbers"]
    require(len(regions[0].results) == len(inputs), "a scatter's region returns one value a result")
    rank = inputs[0].tensor.rank
    for axis, at in numbers.indices_axes(indices.tensor.rank).items():
        same = updates[0].shape[axis] == indices.shape[at]
        require(same, f"{updates[0].type} are not the updates at {indices.type}")
    for axis, at in numbers.operand_axes(rank).items():
        fits = updates[0].shape[axis] <= inputs[0].shape[at]
        require(fits, f"the windows of {updates[0].type} do not fit {inputs[0].type}")
    return build.tuple_or_single(
        [
            array.tensor.with_dtype(result.dtype)
            for array, result in zip(inputs, regions[0].results, strict=True)
        ]
    )


def _slice_scatter(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    """A window or batch axis is cut in the updates too; for another axis, positions are shifted.

    A window that does not fit is not written. So a chunk of an axis that positions run along takes
    all updates, and writes only those that fall inside it. A single update of several inputs is
    not cut so.
    """
    inputs, indices, updates = _parts(node.operands)
    numbers: IndexNumbers = node["scatter_dimension_numbers"]
    input_cuts = (cut,) * len(inputs)
    if cut.axis in numbers.collapsed:
        can_shift = cut.axis in numbers.positions
        can_shift &= len(inputs) == 1 or not _is_single(indices, numbers)
        return (*input_cuts, None, *(None for _ in updates)) if can_shift else None
    if cut.axis in numbers.operand_batching:
        at = numbers.indices_batching[numbers.operand_batching.index(cut.axis)]
        axis = _inverse(numbers.indices_axes(indices.tensor.rank))[at]
        return (*input_cuts, cut._replace(axis=at), *(cut._replace(axis=axis) for _ in updates))
    axis = _inverse(numbers.operand_axes(inputs[0].tensor.rank))[cut.axis]
    if updates[0].shape[axis] != inputs[0].shape[cut.axis]:
        return None
    return (*input_cuts, None, *(cut._replace(axis=axis) for _ in updates))


def _inverse(axes: dict[int, int]) -> dict[int, int]:
    return {value: key for key, value in axes.items()}


def _chunk_scatter(node: Node, cut: Cut, operands: tuple[Node, ...], chunk: Chunk) -> Node:
    inputs, indices, updates = _parts(operands)
    numbers: IndexNumbers = node["scatter_dimension_numbers"]
    size, is_shifted = inputs[0].shape[cut.axis], cut.axis in numbers.collapsed
    is_longer = is_shifted and _is_single(indices, numbers)
    if is_shifted:
        indices = _shifted(indices, numbers, cut, chunk)
    if is_longer:
        inputs = (_one_longer(inputs[0], cut.axis),)
        indices = _beyond(indices, numbers, cut, size)
    chunks = (*inputs, indices, *updates)
    written = build.emit(
        "scatter", chunks, node.attributes, regions=node.regions, source=node.source
    )
    return build.part(written, cut.axis, 0, size) if is_longer else written


def _shifted(indices: Node, numbers: IndexNumbers, cut: Cut, chunk: Chunk) -> Node:
    """The positions as seen from the chunk's first element."""
    if BITS[indices.dtype] < 32:  # the offset may not fit
        indices = build.convert(indices, "i32")
    offset = build.convert(build.chunk_start(chunk, cut), indices.dtype)
    offset = build.broadcast(offset, indices.shape)
    choices = (_along(indices, numbers, cut), offset, build.zeros(indices.tensor))
    return build.subtract(indices, build.emit("select", choices))


def _along(indices: Node, numbers: IndexNumbers, cut: Cut) -> Node:
    """Which of the numbers that positions are made of run along the axis that is cut."""
    along = [axis == cut.axis for axis in numbers.positions]
    if numbers.vector == indices.tensor.rank:  # a position is one number, without an axis
        return build.constant(along[0], indices.tensor.with_dtype("i1"))
    mask = build.constant(along, TensorType("i1", (len(along),)))
    return build.broadcast(mask, indices.shape, (numbers.vector,))


# --- a single position --------------------------------------------------------------------------
#
# XLA makes a scatter of one update a dynamic_update_slice of what a dynamic_slice reads there, and
# takes that for a slice of whatever the chunk was sliced from: it reads outside of the chunk
# instead of at its edge, and writes that. So a position that is not in the chunk is made one
# element beyond it, which is cut off again.


def _is_single(indices: Node, numbers: IndexNumbers) -> bool:
    axes = numbers.indices_axes(indices.tensor.rank).values()
    return prod(indices.shape[axis] for axis in axes) == 1


def _one_longer(x: Node, axis: int) -> Node:
    return build.emit("concatenate", (x, build.part(x, axis, 0, 1)), {"dimension": axis})


def _beyond(indices: Node, numbers: IndexNumbers, cut: Cut, size: int) -> Node:
    """The positions, with `size` for those that are not below it."""
    end = build.constant(size, indices.tensor)
    before = build.compare(indices, build.zeros(indices.tensor), "LT")
    outside = build.emit("or", (before, build.compare(indices, end, "GE")))
    outside = build.emit("and", (outside, _along(indices, numbers, cut)))
    return build.emit("select", (outside, end, indices))


_IDEMPOTENT = {"maximum", "minimum", "and", "or"}


def _contract_scatter(node: Node) -> list[Contraction]:
    """Updates are taken in chunks, if to write the inputs again with each chunk does no harm."""
    inputs, indices, _ = _parts(node.operands)
    (operation, *more) = node.regions[0].results
    numbers: IndexNumbers = node["scatter_dimension_numbers"]
    if more or set(operation.operands) != set(node.regions[0].parameters):
        return []
    from_zero = operation.name == "add" and is_splat(inputs[0]) and not literal(inputs[0])[0]
    if operation.name not in _IDEMPOTENT and not from_zero:
        return []
    return [
        Contraction((None, at, axis), _initial, _combine)
        for axis, at in numbers.indices_axes(indices.tensor.rank).items()
        if at not in numbers.indices_batching
    ]


def _initial(node: Node) -> tuple[Node, ...]:
    return _parts(node.operands).inputs


def _combine(
    node: Node, accumulated: Sequence[Node], chunk: Sequence[Node], _start: Node
) -> tuple[Node, ...]:
    return lift(node.regions[0], (*accumulated, *chunk))


register(
    Op(
        name="scatter",
        opcodes=("scatter",),
        read=_read_scatter,
        infer=_infer_scatter,
        flops=lambda node: sum(update.tensor.size for update in _parts(node.operands).updates),
        slice=_slice_scatter,
        chunk=_chunk_scatter,
        contract=_contract_scatter,
    ),
)
