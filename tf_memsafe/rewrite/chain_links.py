"""The links of a chain: values with numbered axes, and what multiplies and solves with them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.op import Symbol
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.rewrite.maths import dot, long_sizes, transpose

VIEWS = {"reshape", "transpose"}
"""Ops that may show a product with its axes in another order, or with others of one element."""


@dataclass(frozen=True)
class Link:
    """A value; each of its axes has a number, the same wherever the chain has that axis."""

    node: Node
    axes: tuple[int, ...]

    @property
    def sizes(self) -> dict[int, int]:
        return dict(zip(self.axes, self.node.shape, strict=True))

    def arranged(self, axes: Sequence[int]) -> Link:
        """The same value with its axes in this order."""
        order = [self.axes.index(axis) for axis in axes]
        return Link(transpose(self.node, order), tuple(axes))

    def repeated(self, sizes: Mapping[int, int]) -> Link:
        """The same value, repeated along those of these axes that it has not."""
        missing = [axis for axis in sizes if axis not in self.axes]
        shape = (*(sizes[axis] for axis in missing), *self.node.shape)
        own = range(len(missing), len(shape))
        return Link(build.broadcast(self.node, shape, own), (*missing, *self.axes))


@dataclass(frozen=True)
class Inverse(Link):
    """The inverse of the triangle `node`, or of each of a stack; its last axes are the matrix'.

    conjugate: whether it is the complex conjugate of the inverse.
    """

    lower: bool
    unit_diagonal: bool
    conjugate: bool

    def times(self, right: Link) -> Link:
        """The product with a link that shares one of the two axes of the matrix: a solve."""
        *batch, rows, columns = self.axes
        inner, kept = (columns, rows) if columns in right.axes else (rows, columns)
        right = right.repeated({axis: self.sizes[axis] for axis in batch})
        others = [axis for axis in right.axes if axis not in (*batch, inner)]
        left_side = self._is_on_the_left(right, inner)
        right = right.arranged([*batch, inner, *others] if left_side else [*batch, *others, inner])
        solved = self._solved(right.node, left_side, left_side != (inner == columns))
        return Link(solved, tuple(kept if axis == inner else axis for axis in right.axes))

    def _is_on_the_left(self, right: Link, inner: int) -> bool:
        """Whether to solve A X = B or X A = B: as B is laid out, where there is a choice.

        There is none for a conjugate, which a solve knows only of what it transposes.
        """
        if self.conjugate:
            return inner == self.axes[-2]
        own = [axis for axis in right.axes if axis not in self.axes[:-2]]
        return len(own) == 1 or own[-1] != inner

    def _solved(self, right: Node, left_side: bool, transposes: bool) -> Node:
        """The solve for what has the axes of the stack and then one of the matrix, or the last."""
        *batch, size = self.node.shape[:-1]
        others = right.shape[len(batch) + 1 :] if left_side else right.shape[len(batch) : -1]
        matrix = (size, prod(others)) if left_side else (prod(others), size)
        # Without an imaginary part they are one; TensorFlow writes ADJOINT.
        adjoint = self.conjugate or not right.dtype.startswith("complex")
        how = ("ADJOINT" if adjoint else "TRANSPOSE") if transposes else "NO_TRANSPOSE"
        attributes = {
            "left_side": left_side,
            "lower": self.lower,
            "unit_diagonal": self.unit_diagonal,
            "transpose_a": Symbol("transpose", how),
        }
        flat = build.reshape(right, (*batch, *matrix))
        return build.reshape(
            build.emit("triangular_solve", (self.node, flat), attributes), right.shape
        )


def multiply(
    left: Link, right: Link, summed: Collection[int], precision: tuple[Symbol, ...]
) -> Link:
    """The product of two links, summed over those of these axes that both have."""
    for inverse, other in ((left, right), (right, left)):
        if isinstance(inverse, Inverse):
            return inverse.times(other)
    shared = [axis for axis in left.axes if axis in right.axes]
    batch = [axis for axis in shared if axis not in summed]
    inner = [axis for axis in shared if axis in summed]
    numbers = DotNumbers(
        *(tuple(map(link.axes.index, batch)) for link in (left, right)),
        *(tuple(map(link.axes.index, inner)) for link in (left, right)),
    )
    free = (axis for link in (left, right) for axis in link.axes if axis not in shared)
    return Link(dot(left.node, right.node, numbers, precision), (*batch, *free))


# --- reading ------------------------------------------------------------------------------------


def through_view(link: Link, fresh: Iterator[int]) -> Link | None:
    """What a link shows with its axes in another order, or with other axes of one element."""
    node, axes = link.node, link.axes
    if node.name == "transpose":
        back = dict(zip(node["permutation"], axes, strict=True))
        return Link(node.operands[0], tuple(back[axis] for axis in range(len(axes))))
    if node.name == "reshape" and long_sizes(node) == long_sizes(node.operands[0]):
        long = iter([axis for axis, size in link.sizes.items() if size != 1])
        ones = chain([axis for axis, size in link.sizes.items() if size == 1], fresh)
        shape = node.operands[0].shape
        return Link(node.operands[0], tuple(next(ones if size == 1 else long) for size in shape))
    return None


def factors(
    link: Link, left: set[int], right: set[int], fresh: Iterator[int]
) -> tuple[Link, Link] | None:
    """The two links whose product this one is; None if it is none, or not one of the chain.

    left, right: the axes that are summed over with what is before, and behind, this link.
    """
    if link.node.name == "dot_general":
        both = _factors_of_dot(link, fresh)
    elif link.node.name == "triangular_solve":
        both = _factors_of_solve(link, fresh)
    else:
        return None
    shared = {*both[0].axes} & {*both[1].axes}
    if shared & (left | right):
        return None  # an axis of both that is summed over later: it ends the chain
    for first, second in (both, both[::-1]):
        if left <= {*first.axes} - shared and right <= {*second.axes} - shared:
            return first, second
    return None


def _factors_of_dot(link: Link, fresh: Iterator[int]) -> tuple[Link, Link]:
    lhs, rhs = link.node.operands
    numbers: DotNumbers = link.node["dot_dimension_numbers"]
    of_lhs, of_rhs = dict[int | None, int](), dict[int | None, int]()
    origins = numbers.result_axes(lhs.tensor.rank, rhs.tensor.rank)
    summed = zip(numbers.lhs_contracting, numbers.rhs_contracting, strict=True)
    numbered = (*zip(link.axes, origins, strict=True), *zip(fresh, summed, strict=False))
    for number, (left, right) in numbered:
        of_lhs[left] = of_rhs[right] = number
    left_axes, right_axes = (range(x.tensor.rank) for x in (lhs, rhs))
    return (
        Link(lhs, tuple(of_lhs[axis] for axis in left_axes)),
        Link(rhs, tuple(of_rhs[axis] for axis in right_axes)),
    )


def _factors_of_solve(link: Link, fresh: Iterator[int]) -> tuple[Link, Link]:
    triangle, right = link.node.operands
    *batch, rows, columns = link.axes
    inner, how = next(fresh), link.node["transpose_a"].value
    left_side = link.node["left_side"]
    matrix = (rows, inner) if left_side else (inner, columns)
    transposed = _is_transposed(triangle)
    inverse = Inverse(
        triangle.operands[0] if transposed else triangle,
        (*batch, *(matrix if transposed == (how != "NO_TRANSPOSE") else matrix[::-1])),
        link.node["lower"] != transposed,
        link.node["unit_diagonal"],
        how == "ADJOINT" and triangle.dtype.startswith("complex"),
    )
    other = Link(right, (*batch, *((inner, columns) if left_side else (rows, inner))))
    return (inverse, other) if left_side else (other, inverse)


def _is_transposed(triangle: Node) -> bool:
    """Whether a matrix, or each of a stack, is the transpose of its operand."""
    rank = triangle.tensor.rank
    exchanged = (*range(rank - 2), rank - 1, rank - 2)
    return triangle.name == "transpose" and triangle["permutation"] == exchanged
