"""Gather, and the axes that it shares with scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tf_memsafe.hlo import build
from tf_memsafe.hlo.check import require, require_count
from tf_memsafe.hlo.node import Attributes, Node
from tf_memsafe.hlo.op import Chunk, Cut, Fusion, Instruction, Op, no_flops, register
from tf_memsafe.hlo.types import Type


class IndexNumbers(NamedTuple):
    """How positions and windows make up an operand's axes; StableHLO names them differently.

    A gather's result, like a scatter's updates, has an axis for each axis of the indices but
    `vector`, and a `windows` axis for each axis of the operand that is not `collapsed` or batching.
    """

    kind: str  # "gather" or "scatter"
    windows: tuple[int, ...]
    collapsed: tuple[int, ...]
    operand_batching: tuple[int, ...]
    indices_batching: tuple[int, ...]
    positions: tuple[int, ...]  # the operand's axis that each element of a position is for
    vector: int  # the axis of the indices that holds a position

    def __str__(self) -> str:
        fields = zip(_NAMES[self.kind], self[1:], strict=True)
        text = (f"{name} = {list(v) if isinstance(v, tuple) else v}" for name, v in fields)
        return f"#stablehlo.{self.kind}<{', '.join(text)}>"

    def operand_axes(self, rank: int) -> dict[int, int]:
        """The operand's axis of each window axis."""
        hidden = {*self.collapsed, *self.operand_batching}
        shown = [axis for axis in range(rank) if axis not in hidden]
        return dict(zip(self.windows, shown, strict=True))

    def indices_axes(self, rank: int) -> dict[int, int]:
        """The indices' axis of each axis (of the gathered, or the updates) that is no window."""
        axes = [axis for axis in range(rank) if axis != self.vector]
        total = len(axes) + len(self.windows)
        batch = [axis for axis in range(total) if axis not in self.windows]
        return dict(zip(batch, axes, strict=True))

    def batching(self) -> dict[int, int]:
        """The operand's axis of each axis of the indices that they share."""
        return dict(zip(self.indices_batching, self.operand_batching, strict=True))


_NAMES = {
    "gather": (
        "offset_dims",
        "collapsed_slice_dims",
        "operand_batching_dims",
        "start_indices_batching_dims",
        "start_index_map",
        "index_vector_dim",
    ),
    "scatter": (
        "update_window_dims",
        "inserted_window_dims",
        "input_batching_dims",
        "scatter_indices_batching_dims",
        "scatter_dims_to_operand_dims",
        "index_vector_dim",
    ),
}


def index_numbers(kind: str, proto: Any) -> IndexNumbers:
    fields = [getattr(proto, name) for name in _NAMES[kind]]
    return IndexNumbers._make([kind, *map(tuple, fields[:-1]), fields[-1]])


def _read_gather(instruction: Instruction) -> Attributes:
    proto = instruction.proto
    return {
        "dimension_numbers": index_numbers("gather", proto.gather_dimension_numbers),
        "slice_sizes": tuple(proto.gather_slice_sizes),
        "indices_are_sorted": proto.indices_are_sorted,
    }


def _infer_gather(
    operands: Sequence[Node], attributes: Attributes, _regions: object, _declared: object
) -> Type:
    require_count(operands, 2)
    operand, indices = operands
    numbers: IndexNumbers = attributes["dimension_numbers"]
    sizes = attributes["slice_sizes"]
    for size, available in zip(sizes, operand.shape, strict=True):
        require(size <= available, f"a window of {size} does not fit an axis of {available}")
    for indices_axis, operand_axis in numbers.batching().items():
        same = indices.shape[indices_axis] == operand.shape[operand_axis]
        require(same, "the batch axes of operand and indices have to be of one size")
    shape = {
        **{axis: sizes[at] for axis, at in numbers.operand_axes(operand.tensor.rank).items()},
        **{a: indices.shape[at] for a, at in numbers.indices_axes(indices.tensor.rank).items()},
    }
    return operand.tensor.with_shape([shape[axis] for axis in range(len(shape))])


def _slice_gather(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    operand, indices = node.operands
    numbers: IndexNumbers = node["dimension_numbers"]
    if cut.axis in numbers.windows:
        axis = numbers.operand_axes(operand.tensor.rank)[cut.axis]
        whole = operand.shape[axis] == node.shape[cut.axis]
        return (cut._replace(axis=axis), None) if whole else None
    axis = numbers.indices_axes(indices.tensor.rank)[cut.axis]
    shared = numbers.batching().get(axis)
    operand_cut = None if shared is None else cut._replace(axis=shared)
    return operand_cut, cut._replace(axis=axis)


def _chunk_gather(node: Node, cut: Cut, operands: tuple[Node, ...], chunk: Chunk) -> Node:
    numbers: IndexNumbers = node["dimension_numbers"]
    attributes = dict(node.attributes)
    if cut.axis in numbers.windows:
        sizes = list(node["slice_sizes"])
        axis = numbers.operand_axes(operands[0].tensor.rank)[cut.axis]
        sizes[axis] = chunk.size * cut.unit
        attributes["slice_sizes"] = tuple(sizes)
    return build.emit("gather", operands, attributes, source=node.source)


register(
    Op(
        name="gather",
        opcodes=("gather",),
        read=_read_gather,
        infer=_infer_gather,
        flops=no_flops,
        fusion=Fusion.LOOP,
        slice=_slice_gather,
        chunk=_chunk_gather,
    ),
)
