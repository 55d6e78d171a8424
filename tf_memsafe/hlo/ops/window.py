"""Windows that slide over a tensor: reduce_window and select_and_scatter."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import partial
from math import prod
from typing import Any, NamedTuple

from tf_memsafe.hlo import build
from tf_memsafe.hlo.check import (
    require,
    require_count,
    require_same_dtype,
    require_same_shape,
    require_scalars,
)
from tf_memsafe.hlo.lift import can_lift, lift
from tf_memsafe.hlo.node import Attributes, Node, Region
from tf_memsafe.hlo.op import Carry, Cut, Fusion, Instruction, Op, register
from tf_memsafe.hlo.types import Type


class Padding(NamedTuple):
    """Elements added (or taken away, if negative) before and after each axis."""

    edges: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        body = ", ".join(f"[{low}, {high}]" for low, high in self.edges)
        return f"dense<{f'[{body}]' if body else ''}> : tensor<{len(self.edges)}x2xi64>"


class Direction(Enum):
    """Which end of an axis all windows reach to."""

    FORWARDS = "from the first element to the window's own"
    BACKWARDS = "from the window's own element to the last"


class WindowAxis(NamedTuple):
    """A window along one axis, as XLA describes it."""

    size: int
    stride: int
    low: int
    high: int
    dilation: int
    base_dilation: int

    @property
    def is_tile(self) -> bool:
        """Whether windows lie side by side, without gaps, padding or overlap."""
        return self == (self.size, self.size, 0, 0, 1, 1)

    def cumulative(self, size: int) -> Direction | None:
        """How it accumulates an axis of `size` elements, if it does."""
        if (self.size, self.stride, self.dilation, self.base_dilation) != (size, 1, 1, 1):
            return None
        directions = {(size - 1, 0): Direction.FORWARDS, (0, size - 1): Direction.BACKWARDS}
        return directions.get((self.low, self.high)) if size > 1 else None

    def count(self, size: int) -> int:
        """How many windows there are along an axis of `size` elements."""
        extent = 0 if size == 0 else (size - 1) * self.base_dilation + 1
        padded = extent + self.low + self.high
        span = (self.size - 1) * self.dilation + 1
        return 0 if padded < span else (padded - span) // self.stride + 1


def read_padding(window: Any) -> Padding:
    return Padding(tuple((axis.padding_low, axis.padding_high) for axis in window.dimensions))


def _read(instruction: Instruction) -> Attributes:
    window = instruction.proto.window
    axes = window.dimensions
    return {
        "window_dimensions": tuple(axis.size for axis in axes),
        "window_strides": tuple(axis.stride for axis in axes),
        "base_dilations": tuple(axis.base_dilation for axis in axes),
        "window_dilations": tuple(axis.window_dilation for axis in axes),
        "padding": read_padding(window),
    }


def _axes(attributes: Attributes) -> list[WindowAxis]:
    ones = (1,) * len(attributes["window_dimensions"])
    return [
        WindowAxis(size, stride, low, high, dilation, base)
        for size, stride, (low, high), dilation, base in zip(
            attributes["window_dimensions"],
            attributes["window_strides"],
            attributes["padding"].edges,
            attributes.get("window_dilations", ones),
            attributes.get("base_dilations", ones),
            strict=True,
        )
    ]


# --- reduce_window ------------------------------------------------------------------------------


def _infer_reduce_window(
    operands: Sequence[Node], attributes: Attributes, regions: Sequence[Region], _declared: object
) -> Type:
    count = len(regions[0].results)
    require_count(operands, 2 * count)
    require_same_shape(operands[:count])
    require_scalars(operands[count:])
    pairs = zip(_axes(attributes), operands[0].shape, strict=True)
    shape = [axis.count(size) for axis, size in pairs]
    return build.tuple_or_single([result.tensor.with_shape(shape) for result in regions[0].results])


def _flops_reduce_window(node: Node) -> int:
    """XLA accumulates in blocks, which takes a few flops an element however long the axis is."""
    pairs = zip(_axes(node.attributes), node.operands[0].shape, strict=True)
    sizes = [CUMULATIVE_FLOPS if axis.cumulative(size) else axis.size for axis, size in pairs]
    return sum(result.size for result in node.results) * prod(sizes)


def _slice_reduce_window(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    """An axis whose windows lie side by side and cover it can be cut between windows.

    One that is accumulated along can be cut anywhere, if chunks are computed in order.
    """
    axis = _axes(node.attributes)[cut.axis]
    count = len(node.operands) // 2
    size = node.operands[0].shape[cut.axis]
    if _carry_reduce_window(node, cut) is not None:
        return cut, None
    if not axis.is_tile or size != node.results[0].shape[cut.axis] * axis.size:
        return None
    return (*(cut._replace(unit=cut.unit * axis.size),) * count, *(None,) * count)


CUMULATIVE_FLOPS = 4
"""For each element of a cumulative sum along a long axis."""


def _carry_reduce_window(node: Node, cut: Cut) -> Carry | None:
    operand, initial = node.operands[0], node.operands[len(node.operands) // 2]
    direction = _axes(node.attributes)[cut.axis].cumulative(operand.shape[cut.axis])
    others = [size for at, size in enumerate(node["window_dimensions"]) if at != cut.axis]
    if direction is None or len(node.operands) > 2 or not can_lift(node.regions[0]):
        return None
    if any(size != 1 for size in others) or operand.type != node.type:
        return None
    backwards = direction is Direction.BACKWARDS
    first = build.broadcast(initial, node.tensor.with_axis(cut.axis, 1).shape)
    return Carry(backwards, first, partial(_accumulate, node, cut.axis, backwards))


def _accumulate(
    node: Node, at: int, backwards: bool, operands: Sequence[Node], carried: Node
) -> tuple[Node, Node]:
    """A chunk of the results, and the one of them that has all of the chunk in it."""
    size, (region,) = operands[0].shape[at], node.regions
    sizes, edges = list(node["window_dimensions"]), list(node["padding"].edges)
    sizes[at], edges[at] = size, (0, size - 1) if backwards else (size - 1, 0)
    window = {"window_dimensions": tuple(sizes), "padding": Padding(tuple(edges))}
    attributes = {**node.attributes, **window}
    within = build.emit("reduce_window", operands, attributes, regions=(region,))
    before = build.broadcast(carried, within.shape, range(within.tensor.rank))
    (chunk,) = lift(region, (before, within))
    end = 0 if backwards else size - 1
    return chunk, build.part(chunk, at, end, end + 1)


def _construct_reduce_window(instruction: Instruction) -> Node:
    """As it is; but windows of all elements before their own are taken apart.

    The first of those is empty, and the others are the cumulative results, moved by one. That is
    how TensorFlow asks for exclusive sums, dropping the one result too many.
    """
    attributes, operands = _read(instruction), instruction.operands
    at = _exclusive_axis(operands, attributes)
    if at is not None:
        edges = list(attributes["padding"].edges)
        low, high = edges[at]
        edges[at] = max(low - 1, 0), max(high - 1, 0)
        attributes = {**attributes, "padding": Padding(tuple(edges))}
    node = build.emit(
        "reduce_window",
        operands,
        attributes,
        regions=instruction.regions,
        source=instruction.source,
    )
    if at is None:
        return node
    empty = build.broadcast(operands[1], node.tensor.with_axis(at, 1).shape)
    parts = (empty, node) if low else (node, empty)
    return build.emit("concatenate", parts, {"dimension": at}, source=instruction.source)


def _exclusive_axis(operands: Sequence[Node], attributes: Attributes) -> int | None:
    """The axis whose windows have all elements before (or after) the one at their own place."""
    for at, (axis, size) in enumerate(zip(_axes(attributes), operands[0].shape, strict=True)):
        edges = {(axis.low, axis.high), (axis.high, axis.low)}
        moved = axis._replace(low=size - 1, high=0)
        if (size, 0) in edges and moved.cumulative(size) and len(operands) == 2:
            return at
    return None


# --- select_and_scatter -------------------------------------------------------------------------


def _read_select_and_scatter(instruction: Instruction) -> Attributes:
    attributes = dict(_read(instruction))
    del attributes["base_dilations"], attributes["window_dilations"]
    return attributes


def _infer_select_and_scatter(
    operands: Sequence[Node], attributes: Attributes, _regions: object, _declared: object
) -> Type:
    require_count(operands, 3)
    operand, source, initial = operands
    require_scalars((initial,))
    require_same_dtype((source, initial))
    pairs = zip(_axes(attributes), operand.shape, strict=True)
    counts = tuple(axis.count(size) for axis, size in pairs)
    require(source.shape == counts, f"{source.type} has to have an element for each window")
    return operand.tensor.with_dtype(source.dtype)


def _flops_select_and_scatter(node: Node) -> int:
    return node.operands[1].tensor.size * prod(node["window_dimensions"]) + node.tensor.size


def _slice_select_and_scatter(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    """The result has the operand's axes; a step has to cover whole windows of the source."""
    axis = _axes(node.attributes)[cut.axis]
    operand, source, _ = node.operands
    covered = operand.shape[cut.axis] == source.shape[cut.axis] * axis.size
    if not axis.is_tile or not covered or cut.unit % axis.size:
        return None
    return cut, cut._replace(unit=cut.unit // axis.size), None


register(
    Op(
        name="reduce_window",
        opcodes=("reduce-window",),
        construct=_construct_reduce_window,
        infer=_infer_reduce_window,
        flops=_flops_reduce_window,
        fusion=Fusion.REDUCE,
        slice=_slice_reduce_window,
        carry=_carry_reduce_window,
    ),
    Op(
        name="select_and_scatter",
        opcodes=("select-and-scatter",),
        read=_read_select_and_scatter,
        infer=_infer_select_and_scatter,
        flops=_flops_select_and_scatter,
        slice=_slice_select_and_scatter,
    ),
)
