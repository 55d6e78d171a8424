"""Cholesky factors block by block, out of small factors, triangular solves and matrix products.

XLA's CPU back end goes through a matrix of any size column by column, in a loop of small
operations. Here it only has to do so for blocks of 32 columns. `benchmarks/rewrites.py target`
prints what that gains.
"""

from __future__ import annotations

import math

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node, Region
from tf_memsafe.hlo.op import Symbol
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.maths import dot, filled, slice_of
from tf_memsafe.rewrite.rule import Outcome, Skip, rule

BLOCK = 32
"""Columns that are factorised at once."""

PANEL = 512
"""Columns for which one loop is written. Inside it all of them are multiplied, also those that are
still zero; more loops take longer to compile."""

SMALLEST = 100
"""Rows of a matrix for which it pays."""


@rule("cholesky")
def cholesky_by_blocks(node: Node) -> Outcome:
    """cholesky(A) => L, block by block: L11 = cholesky(A11), L21 = A21 / L11.T, A22 - L21 @ L21.T

    Exact but for rounding. As in XLA's own, only the lower half of A is read, and all of L is NaN
    if A is not positive definite. Infinite elements can make more of L NaN than they did.
    """
    (matrix,) = node.operands
    if node.shape[-1] < SMALLEST or matrix.dtype not in ("f32", "f64"):
        return None
    if not node["lower"] or node.tensor.rank > 2:
        return Skip("only the lower factor of a single matrix is computed by blocks")
    size, factor = node.shape[-1], matrix
    for start in range(0, size, PANEL):
        panel, last = _panel(_columns(factor, start, min(start + PANEL, size)))
        factor = build.dynamic_update_slice(factor, panel, [build.index(start)] * 2)
    return _lower_half(factor if size > PANEL else panel, last)


def _columns(factor: Node, start: int, limit: int) -> Node:
    """The columns that come next, less what those before them, which are factorised, make up."""
    size = factor.shape[0]
    columns = _part(factor, start, size, start, limit)
    if not start:
        return columns
    below = _part(factor, start, size, 0, start)
    return build.subtract(columns, _times_transposed(below, _part(factor, start, limit, 0, start)))


def _panel(columns: Node) -> tuple[Node, Node]:
    """The factor's columns, and the last element of its diagonal.

    Those of the upper square are factorised, those below it solved for.
    """
    steps, left = divmod(columns.shape[1], BLOCK)
    done = filled(0, columns, columns.shape), filled(0, columns, ())
    if steps:
        done = _loop(columns, *done, steps)
    return _step(columns, done[0], build.index(steps * BLOCK), left) if left else done


def _loop(columns: Node, done: Node, last: Node, steps: int) -> tuple[Node, Node]:
    types = [TensorType("i32"), done.tensor, last.tensor]
    before = build.region_parameters(types)
    more = build.compare(before[0], build.index(steps), "LT")
    inside = step, so_far, _ = build.region_parameters(types)
    offset = build.multiply(step, build.index(BLOCK))
    following = build.add(step, build.index(1)), *_step(columns, so_far, offset, BLOCK)
    body = Region(inside, following, (columns,))
    _, done, last = build.while_loop((build.index(0), done, last), Region(before, (more,)), body)
    return done, last


def _step(columns: Node, done: Node, offset: Node, width: int) -> tuple[Node, Node]:
    """`done`, zero from the column `offset` on, with `width` more columns; and the last element."""
    rows, zero = columns.shape[0], build.index(0)
    mine = build.dynamic_slice(columns, [zero, offset], (rows, width))
    across = build.dynamic_slice(done, [offset, zero], (width, done.shape[1]))
    rest = build.subtract(mine, _times_transposed(done, across))
    corner = build.dynamic_slice(rest, [offset, zero], (width, width))
    corner = build.emit("cholesky", (corner,), {"lower": True})
    solved = _from_row(build.emit("triangular_solve", (corner, rest), SOLVE), offset)
    solved = build.dynamic_update_slice(solved, corner, [offset, zero])
    last = build.reshape(_part(corner, width - 1, width, width - 1, width), ())
    return build.dynamic_update_slice(done, solved, [zero, offset]), last


SOLVE = {
    "left_side": False,
    "lower": True,
    "unit_diagonal": False,
    "transpose_a": Symbol("transpose", "TRANSPOSE"),
}
"""x @ corner.T = rest, for x."""


def _times_transposed(x: Node, y: Node) -> Node:
    return dot(x, y, DotNumbers((), (), (1,), (1,)))


def _part(x: Node, top: int, bottom: int, left: int, right: int) -> Node:
    return slice_of(x, (top, left), (bottom, right), (1, 1))


def _from_row(x: Node, first: Node) -> Node:
    """The rows from `first` on; zero above them."""
    row = _counted(x.shape, 0)
    return _where(build.compare(row, build.broadcast(first, row.shape), "GE"), x, 0)


def _from_diagonal(x: Node) -> Node:
    """The lower half; zero above the diagonal."""
    return _where(build.compare(_counted(x.shape, 0), _counted(x.shape, 1), "GE"), x, 0)


def _lower_half(factor: Node, last: Node) -> Node:
    """The same, or NaN alone: it spreads from the block without a factor to those that follow.

    last: the end of the diagonal. Read from `factor` here, it would cost a copy of all of it.
    """
    succeeded = build.broadcast(build.compare(last, last, "EQ"), factor.shape)
    return _where(succeeded, _from_diagonal(factor), math.nan)


def _where(kept: Node, x: Node, other: float) -> Node:
    return build.emit("select", (kept, x, filled(other, x, x.shape)))


def _counted(shape: tuple[int, ...], axis: int) -> Node:
    return build.iota(axis, TensorType("i32", shape))
