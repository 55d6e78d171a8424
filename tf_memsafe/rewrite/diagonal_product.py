"""Products of which only the diagonal is needed, and products with a diagonal matrix."""

from __future__ import annotations

from collections.abc import Sequence

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.ops.dot import ACCUMULATORS, DotNumbers
from tf_memsafe.hlo.ops.gather import IndexNumbers
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.diagonal_gather import Diagonal, read_diagonal
from tf_memsafe.rewrite.maths import is_sum, repeats, slice_axis, sum_over, transpose
from tf_memsafe.rewrite.rule import Outcome, Skip, rule


@rule("gather")
def diagonal_of_product(node: Node) -> Outcome:
    """diag_part(A @ B) => sum(A * transpose(B), -1), but for rounding"""
    if node.operands[0].name != "dot_general":
        return None
    found = read_diagonal(node)
    if found is None:
        numbers: IndexNumbers = node["dimension_numbers"]
        single = len(numbers.collapsed) == 2 and {*numbers.collapsed} == {*numbers.positions}
        single &= node.tensor.size > 1
        return Skip("it takes elements that are not those of one diagonal") if single else None
    diagonal = _of_product(found)
    return diagonal if isinstance(diagonal, Skip) else build.reshape(diagonal, node.shape)


@rule("reduce")
def diagonal_of_masked_product(node: Node) -> Outcome:
    """sum(where(i == j, A @ B, 0), -1) => sum(A * transpose(B), -1), but for rounding

    tf.einsum("ii->i") and tf.linalg.tensor_diag_part arrive like this.
    """
    masked, summed = node.operands[0], node["dimensions"]
    if not is_sum(node) or masked.name != "select":
        return None
    mask, product, elsewhere = masked.operands
    axes = equal_positions(mask)
    if axes is None or product.name != "dot_general" or not repeats(elsewhere, 0):
        return None
    if product.shape[axes[0]] != product.shape[axes[1]] or not {*axes} & {*summed}:
        return None
    found = Diagonal.whole(product, axes)
    diagonal = _of_product(found)
    if isinstance(diagonal, Skip):
        return diagonal
    # The diagonal is what is left of the rows if the columns are summed over, and the reverse.
    own = [*found.batch, next((axis for axis in axes if axis not in summed), axes[0])]
    total = sum_over(diagonal, [i for i, axis in enumerate(own) if axis in summed])
    kept = [axis for axis in own if axis not in summed]
    return transpose(total, [kept.index(axis) for axis in sorted(kept)])


def _of_product(diagonal: Diagonal) -> Node | Skip:
    """The diagonal of a dot_general: its other axes in order, then the diagonal's."""
    origins = _origins(diagonal.matrix)
    sides = [side for axis in diagonal.axes for side in (0, 1) if origins[axis][1 - side] is None]
    if len(sides) < 2:
        return Skip("the rows or columns are an axis of the stack")
    if sides[0] == sides[1]:
        return Skip("the rows and columns are those of one factor")
    found = zip(sides, diagonal.axes, diagonal.start, strict=True)
    terms = build.multiply(*(_rows(diagonal, *each) for each in sorted(found)))
    total = sum_over(terms, range(diagonal.matrix.tensor.rank - 1, terms.tensor.rank))
    return build.convert(total, diagonal.matrix.dtype)


def _rows(diagonal: Diagonal, side: int, axis: int, start: int) -> Node:
    """The rows of a factor (the columns, for the right one) that the diagonal needs.

    Their axes: the other axes of the product, the diagonal's, and those that are summed over.
    """
    product = diagonal.matrix
    summed = product["dot_dimension_numbers"][side + 2]
    factor, origins = product.operands[side], [each[side] for each in _origins(product)]
    own = origins[axis]
    assert own is not None
    rows = slice_axis(factor, own, start, start + diagonal.length)
    # In the dtype in which a matrix product adds up.
    rows = build.convert(rows, ACCUMULATORS.get(product.dtype, product.dtype))
    shape = [product.shape[other] for other in diagonal.batch] + [diagonal.length]
    axes = [*(origins[other] for other in diagonal.batch), own, *summed]
    return _placed(rows, axes, shape + [factor.shape[each] for each in summed])


def _origins(product: Node) -> list[tuple[int | None, int | None]]:
    """For each axis of a dot_general, the axis of each operand it comes from."""
    numbers: DotNumbers = product["dot_dimension_numbers"]
    return numbers.result_axes(*(operand.tensor.rank for operand in product.operands))


def _placed(x: Node, axes: Sequence[int | None], shape: Sequence[int]) -> Node:
    """A tensor of this shape whose axis i is x's axis axes[i]; it repeats x where that is None."""
    own = [axis for axis in axes if axis is not None]
    places = [place for place, axis in enumerate(axes) if axis is not None]
    return build.broadcast(transpose(x, own), shape, places)


# --- diagonal matrices --------------------------------------------------------------------------


@rule("dot_general")
def product_with_diagonal(node: Node) -> Outcome:
    """where(i == j, d, 0) @ B => d[:, None] * B: a diagonal matrix is not made whole

    tf.linalg.diag arrives like this, and so does the gradient of diag_part(A @ B). Exact, but for
    signs of zeros, and for what is infinite or NaN in B: off the diagonal it met zeros, which
    gave NaN.
    """
    for side, operand in enumerate(node.operands):
        if operand.name != "select" or operand.dtype != node.dtype:
            continue
        mask, values, elsewhere = operand.operands
        summed = node["dot_dimension_numbers"][side + 2]
        kept = {*(equal_positions(mask) or ())} - {*summed}
        if repeats(elsewhere, 0) and len(summed) == len(kept) == 1:
            (row,) = kept
            if any(own[side] == row and own[1 - side] is None for own in _origins(node)):
                return _scaled_rows(node, side, Diagonal.whole(values, (row, *summed)))
    return None


def _scaled_rows(product: Node, side: int, diagonal: Diagonal) -> Node:
    """The product of a diagonal matrix, which is operand `side`, and the other operand."""
    (inner,) = product["dot_dimension_numbers"][3 - side]
    rows = slice_axis(product.operands[1 - side], inner, 0, diagonal.length)
    origins, row = _origins(product), diagonal.axes[0]
    place = next(i for i, own in enumerate(origins) if own[side] == row)
    shape = [*product.shape[:place], diagonal.length, *product.shape[place + 1 :]]
    own: dict[int | None, int] = {axis: i for i, axis in enumerate([*diagonal.batch, row])}
    of_diagonal = [own.get(axis[side]) for axis in origins]
    of_rows = [inner if i == place else axis[1 - side] for i, axis in enumerate(origins)]
    scaled = build.multiply(
        _placed(diagonal.gather(), of_diagonal, shape), _placed(rows, of_rows, shape)
    )
    return _padded(scaled, place, product.shape[place])


def _padded(x: Node, axis: int, size: int) -> Node:
    """x with zeros behind it, up to this size of an axis."""
    if x.shape[axis] == size:
        return x
    none = (0,) * x.tensor.rank
    behind = (*none[:axis], size - x.shape[axis], *none[axis + 1 :])
    edges = {"edge_padding_low": none, "edge_padding_high": behind, "interior_padding": none}
    return build.emit("pad", (x, build.constant(0, TensorType(x.dtype))), edges)


# --- masks --------------------------------------------------------------------------------------


def equal_positions(mask: Node) -> tuple[int, int] | None:
    """The two axes of a mask that is true where the positions along them are the same."""
    if mask.name == "broadcast_in_dim":
        inner = equal_positions(mask.operands[0])
        if inner is None:
            return None
        first, second = (_broadcast_axis(mask, axis) for axis in inner)
    elif mask.name == "compare" and mask["comparison_direction"].value == "EQ":
        first, second = map(_counted_axis, mask.operands)
    else:
        return None
    return None if first is None or second is None or first == second else (first, second)


def _counted_axis(node: Node) -> int | None:
    """The axis along which integers count up from 0; None if they do not."""
    if node.name == "iota" and node.dtype in ("i32", "i64"):
        return int(node["iota_dimension"])
    if node.name == "add" and repeats(node.operands[1], 0):
        return _counted_axis(node.operands[0])
    if node.name == "broadcast_in_dim":
        inner = _counted_axis(node.operands[0])
        return None if inner is None else _broadcast_axis(node, inner)
    return None


def _broadcast_axis(node: Node, axis: int) -> int | None:
    """Where a broadcast has an axis of its operand; None if it repeats along it."""
    into = int(node["broadcast_dimensions"][axis])
    return into if node.operands[0].shape[axis] == node.shape[into] else None
