"""Makers of small nodes of every op, for the proofs of the axis rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node, Region
from tf_memsafe.hlo.op import Symbol
from tf_memsafe.hlo.ops.convolution import ConvolutionNumbers, Layout
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.hlo.ops.gather import IndexNumbers
from tf_memsafe.hlo.ops.window import Padding
from tf_memsafe.hlo.types import TensorType, Type


class Instance(NamedTuple):
    """A node to cut.

    axes: the axes that can be cut in steps of one element.
    contractions: how many of the axes that it reduces away can be taken in chunks.
    """

    name: str
    types: tuple[TensorType, ...]
    make: Callable[..., Node]
    axes: tuple[int, ...]
    contractions: int = 0
    values: Callable[[int], np.ndarray] | None = None  # of the first parameter


def floats(*shape: int) -> TensorType:
    return TensorType("f32", shape)


def integers(*shape: int) -> TensorType:
    return TensorType("i32", shape)


def booleans(*shape: int) -> TensorType:
    return TensorType("i1", shape)


def complexes(*shape: int) -> TensorType:
    return TensorType("complex<f32>", shape)


def emit(name: str, *, type: Type | None = None, **attributes: Any) -> Callable[..., Node]:
    """A maker of a node with these attributes from its operands."""
    return lambda *operands: build.emit(name, operands, attributes, type=type)


def with_region(
    name: str, *regions: Region, type: Type | None = None, **attributes: Any
) -> Callable[..., Node]:
    return lambda *operands: build.emit(name, operands, attributes, regions=regions, type=type)


def binary(name: str, dtype: str = "f32") -> Region:
    """A region that combines two scalars."""
    x, y = build.region_parameters([TensorType(dtype)] * 2)
    return Region((x, y), (build.emit(name, (x, y)),))


def comparator(direction: str, *dtypes: str) -> Region:
    """A region that compares the first two of its parameters; there are two for each dtype."""
    types = [TensorType(dtype) for dtype in dtypes for _ in range(2)]
    parameters = build.region_parameters(types)
    x, y = parameters[:2]
    return Region(parameters, (build.compare(x, y, direction),))


def arg_max() -> Region:
    """The reducer of argmax: the larger value and its index, the first of equal values."""
    types = [TensorType("f32"), TensorType("i32")] * 2
    value, index, other, other_index = build.region_parameters(types)
    same, smaller = build.compare(value, other, "EQ"), build.compare(index, other_index, "LT")
    first = build.emit("and", (same, smaller))
    keep = build.emit("or", (build.compare(value, other, "GT"), first))
    chosen = build.emit("select", (keep, index, other_index))
    return Region(
        (value, index, other, other_index),
        (build.emit("select", (keep, value, other)), chosen),
    )


def less(x: Node, y: Node) -> Node:
    return build.compare(x, y, "LT")


def double() -> Region:
    (x,) = build.region_parameters([TensorType("f32")])
    return Region((x,), (build.add(x, x),))


def positive_definite(size: int) -> np.ndarray:
    square = np.random.default_rng(1).normal(size=(size, size)).astype(np.float32)
    return square @ square.T + size * np.eye(size, dtype=np.float32)


def sum_over(*axes: int) -> Callable[..., Node]:
    make = with_region("reduce", binary("add"), dimensions=axes)
    return lambda x: make(x, build.zeros(floats()))


# --- attributes ---------------------------------------------------------------------------------

PADDED: dict[str, Any] = {
    "edge_padding_low": (0, 1),
    "edge_padding_high": (0, 2),
    "interior_padding": (0, 1),
}
RANGE: dict[str, Any] = {"start_indices": (0, 1), "limit_indices": (4, 5), "strides": (1, 2)}


def dot(*axes: tuple[int, ...]) -> dict[str, Any]:
    default = (Symbol("precision", "DEFAULT"),) * 2
    return {"dot_dimension_numbers": DotNumbers(*axes), "precision_config": default}


def convolution(features: int = 1, batches: int = 1) -> dict[str, Any]:
    image, kernel = Layout("bf", 0, 3, (1, 2)), Layout("io", 2, 3, (0, 1))
    return {
        "window_strides": (1, 2),
        "padding": Padding(((1, 1), (0, 1))),
        "lhs_dilation": (1, 1),
        "rhs_dilation": (1, 1),
        "dimension_numbers": ConvolutionNumbers(image, kernel, image),
        "feature_group_count": features,
        "batch_group_count": batches,
        "precision_config": (Symbol("precision", "DEFAULT"),) * 2,
    }


def window(sizes: tuple[int, ...], strides: tuple[int, ...]) -> dict[str, Any]:
    return {
        "window_dimensions": sizes,
        "window_strides": strides,
        "padding": Padding(((0, 0),) * len(sizes)),
    }


def dilations(rank: int) -> dict[str, Any]:
    return {"base_dilations": (1,) * rank, "window_dilations": (1,) * rank}


def gather(sizes: tuple[int, ...], *fields: Any) -> dict[str, Any]:
    return {
        "dimension_numbers": IndexNumbers("gather", *fields),
        "slice_sizes": sizes,
        "indices_are_sorted": False,
    }


def scatter(*fields: Any) -> dict[str, Any]:
    return {
        "scatter_dimension_numbers": IndexNumbers("scatter", *fields),
        "indices_are_sorted": False,
        "unique_indices": False,
    }


def scatter_into(value: float, *fields: Any) -> Callable[..., Node]:
    """A scatter-add into a constant, as the gradient of a gather is one."""
    make = with_region("scatter", binary("add"), **scatter(*fields))
    return lambda *operands: make(build.constant(value, floats(6, 4)), *operands)


def solve(left_side: bool) -> dict[str, Any]:
    return {
        "left_side": left_side,
        "lower": True,
        "unit_diagonal": False,
        "transpose_a": Symbol("transpose", "NO_TRANSPOSE"),
    }


def fft(kind: str, *length: int) -> dict[str, Any]:
    return {"fft_type": Symbol("fft_type", kind), "fft_length": length}
