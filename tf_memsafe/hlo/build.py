"""Builders: new nodes, written the way the maths reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tf_memsafe.hlo.node import NO_ATTRIBUTES, Attributes, Node, Region, Source, fresh_scope, make
from tf_memsafe.hlo.op import Chunk, Cut, Symbol, by_name
from tf_memsafe.hlo.types import TensorType, TupleType, Type

NUMPY_DTYPES: dict[str, Any] = {
    "i1": np.bool_,
    **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "complex<f32>": np.complex64,
    "complex<f64>": np.complex128,
    "i4": ml_dtypes.int4,
    "ui4": ml_dtypes.uint4,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}
"""The NumPy dtype of each StableHLO dtype that a constant can have."""


def emit(
    name: str,
    operands: Iterable[Node] = (),
    attributes: Attributes = NO_ATTRIBUTES,
    *,
    type: Type | None = None,
    regions: Iterable[Region] = (),
    source: Source | None = None,
) -> Node:
    """A node of the op `name`; its type is inferred unless the op needs it given."""
    op, operands, regions = by_name(name), tuple(operands), tuple(regions)
    inferred = op.infer(operands, attributes, regions, type)
    return make(op, operands, inferred, attributes, regions, source)


def parameter(index: int, type: TensorType, scope: str) -> Node:
    return emit("parameter", (), {"index": index, "scope": scope}, type=type)


def results(node: Node) -> tuple[Node, ...]:
    """The results of a node, each as a node of its own."""
    if isinstance(node.type, TensorType):
        return (node,)
    return tuple(
        emit("get_tuple_element", (node,), {"index": index}, source=node.source)
        for index in range(len(node.results))
    )


def constant(value: Any, type: TensorType, source: Source | None = None) -> Node:
    """A constant; `value` is broadcast to the type's shape. One repeated value is kept once."""
    array = np.ascontiguousarray(np.asarray(value, NUMPY_DTYPES[type.dtype]))
    flat = array.reshape(-1)
    splat = flat.size > 0 and flat.tobytes() == flat[:1].tobytes() * flat.size
    literal = (flat[:1] if splat else flat).tobytes()
    return emit("constant", (), {"value": literal}, type=type, source=source)


def zeros(type: TensorType) -> Node:
    return constant(0, type)


def iota(axis: int, type: TensorType) -> Node:
    """The position of each element along an axis."""
    return emit("iota", (), {"iota_dimension": axis}, type=type)


def index(value: int) -> Node:
    """A scalar i32, the type of the offsets and counters that loops use."""
    return constant(value, TensorType("i32"))


def chunk_start(chunk: Chunk, cut: Cut) -> Node:
    """The first element that the chunk covers of an axis that is cut so, a scalar i32."""
    step = subtract(chunk.offset, index(cut.first)) if cut.first else chunk.offset
    return multiply(step, index(cut.unit))


def add(x: Node, y: Node) -> Node:
    return emit("add", (x, y))


def subtract(x: Node, y: Node) -> Node:
    return emit("subtract", (x, y))


def multiply(x: Node, y: Node) -> Node:
    return emit("multiply", (x, y))


def compare(x: Node, y: Node, direction: str, total: bool = False) -> Node:
    """`direction` is one of EQ, NE, LT, LE, GT, GE; `total` orders NaN and -0 among the floats."""
    kind = "SIGNED"
    if x.dtype.startswith("ui") or x.dtype == "i1":
        kind = "UNSIGNED"
    elif "f" in x.dtype:
        kind = "TOTALORDER" if total else "FLOAT"
    return emit(
        "compare",
        (x, y),
        {
            "comparison_direction": Symbol("comparison_direction", direction),
            "compare_type": Symbol("comparison_type", kind),
        },
    )


def convert(x: Node, dtype: str) -> Node:
    return x if x.dtype == dtype else emit("convert", (x,), type=x.tensor.with_dtype(dtype))


def reshape(x: Node, shape: Sequence[int]) -> Node:
    return x if x.shape == tuple(shape) else emit("reshape", (x,), type=x.tensor.with_shape(shape))


def broadcast(x: Node, shape: Sequence[int], axes: Sequence[int] = ()) -> Node:
    """`x` repeated to `shape`; `axes[i]` is where axis i of x goes."""
    if x.shape == tuple(shape) and tuple(axes) == tuple(range(x.tensor.rank)):
        return x
    return emit(
        "broadcast_in_dim",
        (x,),
        {"broadcast_dimensions": tuple(axes)},
        type=x.tensor.with_shape(shape),
    )


def part(x: Node, axis: int, start: int, limit: int) -> Node:
    """The elements from `start` on, without `limit`, along an axis."""
    starts, limits = [0] * x.tensor.rank, list(x.shape)
    starts[axis], limits[axis] = start, limit
    ends = {"start_indices": tuple(starts), "limit_indices": tuple(limits)}
    return emit("slice", (x,), {**ends, "strides": (1,) * x.tensor.rank})


def prefix(x: Node, size: int) -> Node:
    """The first `size` elements of the last axis."""
    return part(x, x.tensor.rank - 1, 0, size)


def dynamic_slice(x: Node, starts: Sequence[Node], sizes: Sequence[int]) -> Node:
    return emit("dynamic_slice", (x, *starts), {"slice_sizes": tuple(sizes)})


def dynamic_update_slice(x: Node, update: Node, starts: Sequence[Node]) -> Node:
    return emit("dynamic_update_slice", (x, update, *starts))


def while_loop(
    initial: Sequence[Node], condition: Region, body: Region, source: Source | None = None
) -> tuple[Node, ...]:
    """The loop's final values. The regions take the state; the body may capture outer values."""
    node = emit("while", initial, regions=(condition, body), source=source)
    return results(node)


def region_parameters(types: Iterable[TensorType]) -> tuple[Node, ...]:
    """Fresh parameters for a new region."""
    scope = fresh_scope()
    return tuple(parameter(index, type, scope) for index, type in enumerate(types))


def tuple_or_single(types: Sequence[TensorType]) -> Type:
    """One type as it is, several as a TupleType: the type of an op with these results."""
    return types[0] if len(types) == 1 else TupleType(tuple(types))
