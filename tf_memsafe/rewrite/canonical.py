"""canonical: one spelling of each thing, so that the other optimizers need to know only one.

All rules here are exact, to the last bit.
"""

from __future__ import annotations

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node, Region
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.rewrite.maths import (
    float_bits,
    integer_range,
    repeated_value,
    repeats,
    slice_of,
    transpose,
)
from tf_memsafe.rewrite.rule import Optimizer, Outcome, Skip, rule
from tf_memsafe.rewrite.value_range import decided_comparison

# --- views --------------------------------------------------------------------------------------


@rule("reshape", "convert", "slice", "broadcast_in_dim", "pad", "transpose")
def no_op(node: Node) -> Outcome:
    """reshape(x) => x, and other views of x as itself"""
    x = node.operands[0]
    if node.type != x.type:
        return None
    if node.name == "transpose":
        return x if node["permutation"] == tuple(range(x.tensor.rank)) else None
    if node.name == "broadcast_in_dim":
        return x if node["broadcast_dimensions"] == tuple(range(x.tensor.rank)) else None
    if node.name == "pad":
        # Negative edges can make up for padding elsewhere: equal types are not enough.
        edges = ("edge_padding_low", "edge_padding_high", "interior_padding")
        return None if any(any(node[edge]) for edge in edges) else x
    return x


@rule("reshape")
def reshape_twice(node: Node) -> Outcome:
    """reshape(reshape(x)) => reshape(x)"""
    inner = node.operands[0]
    return build.reshape(inner.operands[0], node.shape) if inner.name == "reshape" else None


@rule("transpose")
def transpose_twice(node: Node) -> Outcome:
    """transpose(transpose(x)) => transpose(x)"""
    inner = node.operands[0]
    if inner.name != "transpose":
        return None
    return transpose(
        inner.operands[0], [inner["permutation"][axis] for axis in node["permutation"]]
    )


@rule("slice")
def slice_twice(node: Node) -> Outcome:
    """x[a:b][c:d] => x[a + c:a + d]"""
    inner = node.operands[0]
    if inner.name != "slice" or not node.tensor.size:
        return None
    strides = [i * j for i, j in zip(inner["strides"], node["strides"], strict=True)]
    starts = [
        outer + start * stride
        for outer, start, stride in zip(
            inner["start_indices"], node["start_indices"], inner["strides"], strict=True
        )
    ]
    limits = [
        start + (size - 1) * stride + 1
        for start, size, stride in zip(starts, node.shape, strides, strict=True)
    ]
    return slice_of(inner.operands[0], starts, limits, strides)


@rule("broadcast_in_dim")
def broadcast_twice(node: Node) -> Outcome:
    """broadcast(broadcast(x)) => broadcast(x)"""
    inner = node.operands[0]
    if inner.name != "broadcast_in_dim":
        return None
    axes = [node["broadcast_dimensions"][axis] for axis in inner["broadcast_dimensions"]]
    return build.broadcast(inner.operands[0], node.shape, axes)


@rule("broadcast_in_dim")
def broadcast_of_ones(node: Node) -> Outcome:
    """broadcast(x[:, None]) => broadcast(x): axes of one element are not carried along"""
    x, axes = node.operands[0], node["broadcast_dimensions"]
    kept = [axis for axis, size in enumerate(x.shape) if size != 1]
    if len(kept) == x.tensor.rank or not node.tensor.size:
        return None
    narrow = build.reshape(x, [x.shape[axis] for axis in kept])
    if narrow.name == "reshape" and narrow.operands[0].name == "reshape":
        narrow = build.reshape(narrow.operands[0].operands[0], narrow.shape)
    return build.broadcast(narrow, node.shape, [axes[axis] for axis in kept])


@rule("convert")
def convert_twice(node: Node) -> Outcome:
    """convert(convert(x)) => convert(x), if the inner conversion loses nothing"""
    inner = node.operands[0]
    if inner.name != "convert" or not is_widening(inner.operands[0].dtype, inner.dtype):
        return None
    return build.convert(inner.operands[0], node.dtype)


def is_widening(narrow: str, wide: str) -> bool:
    """Whether each value of one dtype is a value of the other."""
    digits, room = float_bits(narrow), float_bits(wide)
    if digits and room:
        return all(has <= offered for has, offered in zip(digits, room, strict=True))
    if narrow.startswith("complex") or wide.startswith("complex") or narrow == "i1":
        return False
    values, range_ = integer_range(narrow), integer_range(wide)
    if values and range_:
        return range_[0] <= values[0] and values[1] <= range_[1]
    # A float with p stored digits holds each integer of p + 1 bits.
    return bool(values and room and max(map(abs, values)) <= 2 ** (room[0] + 1))


# --- arithmetic ---------------------------------------------------------------------------------


@rule("power")
def small_power(node: Node) -> Outcome:
    """power(x, 2) => x * x, and power(x, 1) => x"""
    x, exponent = node.operands
    if node.dtype.startswith("complex"):
        return None
    if repeats(exponent, 2):
        return build.multiply(x, x)
    return x if repeats(exponent, 1) else None


@rule("multiply", "divide", "subtract")
def neutral(node: Node) -> Outcome:
    """x * 1 => x, and x / 1, and x - 0"""
    x, y = node.operands
    if node.dtype.startswith("complex"):
        return None
    if node.name == "subtract":
        # Not x - (-0.0): it turns -0.0 into 0.0.
        return x if str(repeated_value(y)) in ("0", "0.0") else None
    if repeats(y, 1):
        return x
    return y if node.name == "multiply" and repeats(x, 1) else None


@rule("negate", "not")
def negated_twice(node: Node) -> Outcome:
    """-(-x) => x"""
    inner = node.operands[0]
    return inner.operands[0] if inner.name == node.name else None


@rule("and", "or")
def settled(node: Node) -> Outcome:
    """x & x => x, and x & true, and x | false"""
    x, y = node.operands
    if x is y:
        return x
    if node.dtype != "i1":
        return None
    unit = node.name == "and"
    if repeated_value(y) is unit:
        return x
    return y if repeated_value(x) is unit else None


@rule("select")
def chosen(node: Node) -> Outcome:
    """select(true, x, y) => x"""
    predicate, x, y = node.operands
    value = repeated_value(predicate)
    if value is None:
        return x if x is y else None
    return x if value else y


# --- products -----------------------------------------------------------------------------------


@rule("dot_general")
def transposed_factor(node: Node) -> Outcome:
    """dot(transpose(x), y) => dot(x, y) along x's own axes"""
    for side, operand in enumerate(node.operands):
        if operand.name == "transpose":
            numbers = _through_transpose(node["dot_dimension_numbers"], side, operand)
            if numbers is not None:
                operands = list(node.operands)
                operands[side] = operand.operands[0]
                attributes = {**node.attributes, "dot_dimension_numbers": numbers}
                return build.emit("dot_general", operands, attributes, type=node.type)
    return None


def _through_transpose(numbers: DotNumbers, side: int, operand: Node) -> DotNumbers | None:
    """The numbers for what is transposed; None if the result's axes would change places."""
    permutation = operand["permutation"]
    free = [permutation[axis] for axis in numbers.free_axes(side, len(permutation))]
    if free != sorted(free):
        return None
    fields = list(numbers)
    for field in (side, side + 2):
        fields[field] = tuple(permutation[axis] for axis in numbers[field])
    return DotNumbers(*fields)


# --- order --------------------------------------------------------------------------------------


@rule("slice")
def sorted_prefix(node: Node) -> Outcome:
    """sort(x)[..., :k] => top_k(x, k), as tf.math.top_k arrives from TensorFlow

    The same values and indices, the lower index first among equals.
    """
    sliced = node.operands[0]
    sort = sliced.operands[0] if sliced.name == "get_tuple_element" else sliced
    if sort.name != "sort":
        return None
    if not _is_prefix(node):
        return Skip("it takes other elements than the first of the last axis")
    if not _sorts_down(sort):
        return Skip("it is not a descending sort of values, alone or with their positions")
    top = build.emit("top_k", sort.operands[:1], {"k": node.shape[-1]}, source=node.source)
    return build.results(top)[sliced["index"] if sliced is not sort else 0]


def _is_prefix(node: Node) -> bool:
    """Whether a slice takes the first elements of the last axis, and the other axes whole."""
    whole = node.operands[0].shape[:-1] == node.shape[:-1]
    return whole and not any(node["start_indices"]) and set(node["strides"]) <= {1}


def _sorts_down(sort: Node) -> bool:
    """Whether it sorts the last axis, largest first, alone or with the elements' positions."""
    values = sort.operands[0]
    last = values.tensor.rank - 1
    if sort["dimension"] != last or not _is_greater_than(sort.regions[0], values.dtype):
        return False
    if len(sort.operands) == 1:
        return values.dtype.lstrip("u").startswith("i")  # equal integers cannot be told apart
    positions = sort.operands[1]
    counts = positions.name == "iota" and positions["iota_dimension"] == last
    return len(sort.operands) == 2 and counts and positions.dtype == "i32" and sort["is_stable"]


def _is_greater_than(region: Region, dtype: str) -> bool:
    (result,) = region.results
    if result.name != "compare" or result.operands != region.parameters[:2]:
        return False
    greater = result["comparison_direction"].value == "GT"
    return greater and ("f" not in dtype or result["compare_type"].value == "TOTALORDER")


CANONICAL = Optimizer(
    "canonical",
    (
        no_op,
        reshape_twice,
        transpose_twice,
        slice_twice,
        broadcast_twice,
        broadcast_of_ones,
        convert_twice,
        small_power,
        neutral,
        negated_twice,
        settled,
        chosen,
        decided_comparison,
        transposed_factor,
        sorted_prefix,
    ),
)
