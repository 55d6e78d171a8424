"""Convolution, its gradients, and the grouped kinds."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from tf_memsafe.hlo.check import require, require_count
from tf_memsafe.hlo.node import Attributes, Node
from tf_memsafe.hlo.op import Contraction, Cut, Instruction, Op, Symbol, register
from tf_memsafe.hlo.ops.dot import add_chunk, zero_sums
from tf_memsafe.hlo.ops.window import Padding, WindowAxis, read_padding
from tf_memsafe.hlo.types import TensorType, Type


class Layout(NamedTuple):
    """What each axis of an image or kernel is: two axes with a name, and the spatial ones.

    For an image `first` is the batch and `second` the features; for a kernel they are the input
    and the output features.
    """

    names: str  # "bf" or "io"
    first: int
    second: int
    spatial: tuple[int, ...]

    def __str__(self) -> str:
        letters = {self.first: self.names[0], self.second: self.names[1]}
        letters |= {axis: str(position) for position, axis in enumerate(self.spatial)}
        return f"[{', '.join(letters[axis] for axis in range(len(letters)))}]"


class ConvolutionNumbers(NamedTuple):
    """The layouts of a convolution's operands and result."""

    lhs: Layout
    rhs: Layout
    result: Layout

    def __str__(self) -> str:
        return f"#stablehlo.conv<{self.lhs}x{self.rhs}->{self.result}>"


def _read(instruction: Instruction) -> Attributes:
    proto = instruction.proto
    axes = proto.window.dimensions
    attributes: dict[str, Any] = {
        "window_strides": tuple(axis.stride for axis in axes),
        "padding": read_padding(proto.window),
        "lhs_dilation": tuple(axis.base_dilation for axis in axes),
        "rhs_dilation": tuple(axis.window_dilation for axis in axes),
        "dimension_numbers": _numbers(proto.convolution_dimension_numbers),
        # A proto that leaves a group count out means one group.
        "feature_group_count": proto.feature_group_count or 1,
        "batch_group_count": proto.batch_group_count or 1,
    }
    reversal = tuple(axis.window_reversal for axis in axes)
    if any(reversal):
        attributes["window_reversal"] = reversal
    names = instruction.enum(proto.precision_config, "operand_precision") or ("DEFAULT", "DEFAULT")
    attributes["precision_config"] = tuple(Symbol("precision", name) for name in names)
    return attributes


def _numbers(proto: Any) -> ConvolutionNumbers:
    return ConvolutionNumbers(
        Layout(
            "bf",
            proto.input_batch_dimension,
            proto.input_feature_dimension,
            tuple(proto.input_spatial_dimensions),
        ),
        Layout(
            "io",
            proto.kernel_input_feature_dimension,
            proto.kernel_output_feature_dimension,
            tuple(proto.kernel_spatial_dimensions),
        ),
        Layout(
            "bf",
            proto.output_batch_dimension,
            proto.output_feature_dimension,
            tuple(proto.output_spatial_dimensions),
        ),
    )


def _infer(
    operands: Sequence[Node], attributes: Attributes, _regions: object, declared: Type | None
) -> Type:
    require_count(operands, 2)
    lhs, rhs = operands
    numbers: ConvolutionNumbers = attributes["dimension_numbers"]
    features = lhs.shape[numbers.lhs.second]
    inner = rhs.shape[numbers.rhs.first] * attributes["feature_group_count"]
    require(features == inner, f"an image of {features} features, a kernel for {inner}")
    shape = {
        numbers.result.first: lhs.shape[numbers.lhs.first] // attributes["batch_group_count"],
        numbers.result.second: rhs.shape[numbers.rhs.second],
        **_spatial(lhs, rhs, attributes),
    }
    # The element type may be wider than the operands'.
    dtype = declared.dtype if isinstance(declared, TensorType) else lhs.dtype
    return TensorType(dtype, tuple(shape[axis] for axis in range(len(shape))))


def _spatial(lhs: Node, rhs: Node, attributes: Attributes) -> dict[int, int]:
    """The size of each spatial axis of the result."""
    numbers: ConvolutionNumbers = attributes["dimension_numbers"]
    padding: Padding = attributes["padding"]
    columns = zip(
        numbers.lhs.spatial,
        numbers.rhs.spatial,
        numbers.result.spatial,
        attributes["window_strides"],
        padding.edges,
        attributes["rhs_dilation"],
        attributes["lhs_dilation"],
        strict=True,
    )
    return {
        to: WindowAxis(rhs.shape[kernel], stride, *edges, *dilations).count(lhs.shape[image])
        for image, kernel, to, stride, edges, *dilations in columns
    }


def _flops(node: Node) -> int:
    kernel, numbers = node.operands[1], node["dimension_numbers"]
    window = prod(kernel.shape) // max(1, kernel.shape[numbers.rhs.second])
    return 2 * node.tensor.size * window


def _is_grouped(node: Node) -> bool:
    return bool(node["feature_group_count"] > 1 or node["batch_group_count"] > 1)


def _slice(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    """Images can be taken one by one; output features too, unless they are grouped."""
    numbers: ConvolutionNumbers = node["dimension_numbers"]
    if cut.axis == numbers.result.first and node["batch_group_count"] == 1:
        return cut._replace(axis=numbers.lhs.first), None
    if cut.axis == numbers.result.second and not _is_grouped(node):
        return None, cut._replace(axis=numbers.rhs.second)
    return None


def _contract(node: Node) -> list[Contraction]:
    """Input features are summed. In the gradient to the kernel, they are the images of a batch."""
    numbers: ConvolutionNumbers = node["dimension_numbers"]
    if _is_grouped(node):
        return []
    return [Contraction((numbers.lhs.second, numbers.rhs.first), zero_sums, add_chunk)]


register(
    Op(
        name="convolution",
        opcodes=("convolution",),
        read=_read,
        infer=_infer,
        flops=_flops,
        slice=_slice,
        contract=_contract,
    )
)
