"""diagonal: of a large matrix, only what its diagonal needs is computed.

tf.linalg.diag_part and tf.linalg.trace arrive as a gather at positions (i + a, i + b). It is moved
towards the arguments, through what works element by element, until a product is its operand.
"""

from __future__ import annotations

import numpy as np

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.op import Fusion
from tf_memsafe.hlo.ops.elementwise import same_axis
from tf_memsafe.hlo.ops.reduction import kept_axes
from tf_memsafe.hlo.ops.structure import is_splat, literal
from tf_memsafe.rewrite.diagonal_gather import Diagonal, read_diagonal
from tf_memsafe.rewrite.diagonal_product import (
    diagonal_of_masked_product,
    diagonal_of_product,
    product_with_diagonal,
)
from tf_memsafe.rewrite.maths import filled, is_float, slice_axis, sum_over, transpose
from tf_memsafe.rewrite.rule import Optimizer, Outcome, Skip, rule


@rule("gather")
def diagonal_of_elements(node: Node) -> Outcome:
    """diag_part(f(x, y)) => f(diag_part(x), diag_part(y)), for f that works element by element"""
    found = read_diagonal(node)
    if found is None or not _is_elementwise(found.matrix):
        return None
    shape = found.matrix.shape
    operands = [
        found.of(operand) if operand.shape == shape else operand
        for operand in found.matrix.operands
    ]
    type_ = operands[-1].tensor.with_dtype(found.matrix.dtype)
    diagonal = build.emit(found.matrix.name, operands, found.matrix.attributes, type=type_)
    return build.reshape(diagonal, node.shape)


def _is_elementwise(node: Node) -> bool:
    return node.op.fusion is Fusion.LOOP and node.op.slice is same_axis and not node.regions


@rule("gather")
def diagonal_of_transpose(node: Node) -> Outcome:
    """diag_part(transpose(x)) => diag_part(x)"""
    found = read_diagonal(node)
    if found is None or found.matrix.name != "transpose":
        return None
    permutation = found.matrix["permutation"]
    batch = [permutation[axis] for axis in found.batch]
    if batch != sorted(batch):
        return Skip("the axes of the stack change places")
    axes = [permutation[axis] for axis in found.axes]
    return build.reshape(found.of(found.matrix.operands[0], axes), node.shape)


@rule("gather")
def diagonal_of_broadcast(node: Node) -> Outcome:
    """diag_part(broadcast(x)) => broadcast(x), of no more than the diagonal"""
    found = read_diagonal(node)
    if found is None or found.matrix.name != "broadcast_in_dim":
        return None
    x, into = found.matrix.operands[0], list(found.matrix["broadcast_dimensions"])
    rows, columns = (into.index(axis) if axis in into else None for axis in found.axes)
    place = {axis: position for position, axis in enumerate(found.batch)}
    last = len(place)
    if rows is not None and columns is not None:
        if 1 in (x.shape[rows], x.shape[columns]):
            return None
        x = found.of(x, (rows, columns))
        axes = [place[axis] for axis in into if axis not in found.axes] + [last]
    else:
        for axis, start in ((rows, found.start[0]), (columns, found.start[1])):
            if axis is not None and x.shape[axis] > 1:
                x = slice_axis(x, axis, start, start + found.length)
        axes = [place.get(axis, last) for axis in into]
    shape = [found.matrix.shape[axis] for axis in found.batch]
    return build.reshape(build.broadcast(x, (*shape, found.length), axes), node.shape)


@rule("gather")
def diagonal_of_reduction(node: Node) -> Outcome:
    """diag_part(sum(x, k)) => sum(diag_part(x), k), and for any other reduction"""
    found = read_diagonal(node)
    if found is None or found.matrix.name != "reduce" or len(found.matrix.operands) != 2:
        return None
    reduced = found.matrix
    x, initial = reduced.operands
    kept = kept_axes(reduced)
    rows, columns = (kept[axis] for axis in found.axes)
    others = [axis for axis in range(x.tensor.rank) if axis not in (rows, columns)]
    diagonal = found.of(x, (rows, columns))
    dimensions = tuple(others.index(axis) for axis in reduced["dimensions"])
    attributes = {"dimensions": dimensions}
    total = build.emit("reduce", (diagonal, initial), attributes, regions=reduced.regions)
    return build.reshape(total, node.shape)


@rule("gather")
def diagonal_of_known(node: Node) -> Outcome:
    """diag_part(iota) => iota, and the diagonal of a constant => a constant"""
    found = read_diagonal(node)
    if found is None or found.matrix.name not in ("iota", "constant"):
        return None
    if found.matrix.name == "constant":
        return build.constant(_constant_diagonal(found), node.tensor)
    along = found.matrix["iota_dimension"]
    shape = (*(found.matrix.shape[axis] for axis in found.batch), found.length)
    axis = found.batch.index(along) if along in found.batch else len(found.batch)
    type_ = found.matrix.tensor.with_shape(shape)
    count = build.iota(axis, type_)
    start = dict(zip(found.axes, found.start, strict=True)).get(along, 0)
    return build.reshape(build.add(count, filled(start, count, shape)), node.shape)


def _constant_diagonal(diagonal: Diagonal) -> np.ndarray:
    values = np.broadcast_to(literal(diagonal.matrix)[0], diagonal.matrix.shape)
    if not is_splat(diagonal.matrix):
        values = literal(diagonal.matrix).reshape(diagonal.matrix.shape)
    row, column = diagonal.start
    square = np.moveaxis(values, diagonal.axes, (-2, -1))[..., row:, column:]
    return np.diagonal(square, 0, -2, -1)[..., : diagonal.length]


@rule("gather")
def diagonal_of_view(node: Node) -> Outcome:
    """diag_part(x) => sum(where(i == j, x, -0.0), -1), for a reshape, pad and the like

    A gather needs x whole, but this can be cut along its rows. Exact: -0.0 changes no sum.
    """
    found = read_diagonal(node)
    if found is None or found.matrix.name not in VIEWS:
        return None
    matrix, (rows, columns) = found.matrix, found.axes
    if matrix.name == "reshape" and matrix.operands[0].name in ("parameter", "constant"):
        return None  # it exists whole as it is
    if not is_float(matrix):
        return Skip(f"a sum of {matrix.dtype} is not known to keep a single value")
    apart = found.start[1] - found.start[0]
    type_ = matrix.tensor.with_dtype("i32")
    row, column = (build.iota(axis, type_) for axis in found.axes)
    shifted = build.add(row, filled(apart, row, row.shape)) if apart else row
    on_it = build.compare(shifted, column, "EQ")
    terms = build.emit("select", (on_it, matrix, filled(-0.0, matrix, matrix.shape)))
    total = sum_over(terms, (columns,), initial=-0.0)
    axis = rows - (columns < rows)
    kept = slice_axis(total, axis, found.start[0], found.start[0] + found.length)
    others = [other for other in range(kept.tensor.rank) if other != axis]
    return build.reshape(transpose(kept, (*others, axis)), node.shape)


VIEWS = {"reshape", "pad", "concatenate", "reverse", "slice"}
"""Ops whose result need not exist whole, and whose diagonal is not the operand's."""


DIAGONAL = Optimizer(
    "diagonal",
    (
        diagonal_of_product,
        diagonal_of_masked_product,
        product_with_diagonal,
        diagonal_of_elements,
        diagonal_of_transpose,
        diagonal_of_broadcast,
        diagonal_of_reduction,
        diagonal_of_known,
        diagonal_of_view,
    ),
)
