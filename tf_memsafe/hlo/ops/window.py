"""Windows that slide over a tensor: reduce_window and select_and_scatter."""

from __future__ import annotations

from collections.abc import Sequence
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
from tf_memsafe.hlo.node import Attributes, Node, Region
from tf_memsafe.hlo.op import Cut, Fusion, Instruction, Op, register
from tf_memsafe.hlo.types import Type


class Padding(NamedTuple):
    """Elements added (or taken away, if negative) before and after each axis."""

    edges: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        body = ", ".join(f"[{low}, {high}]" for low, high in self.edges)
        return f"dense<{f'[{body}]' if body else ''}> : tensor<{len(self.edges)}x2xi64>"


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
    return sum(result.size for result in node.results) * prod(node["window_dimensions"])


def _slice_reduce_window(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    """An axis whose windows lie side by side and cover it can be cut between windows."""
    axis = _axes(node.attributes)[cut.axis]
    count = len(node.operands) // 2
    size = node.operands[0].shape[cut.axis]
    if not axis.is_tile or size != node.results[0].shape[cut.axis] * axis.size:
        return None
    return (*(Cut(cut.axis, cut.unit * axis.size),) * count, *(None,) * count)


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
    return cut, Cut(cut.axis, cut.unit // axis.size), None


register(
    Op(
        name="reduce_window",
        opcodes=("reduce-window",),
        read=_read,
        infer=_infer_reduce_window,
        flops=_flops_reduce_window,
        fusion=Fusion.REDUCE,
        slice=_slice_reduce_window,
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
