"""canonical, of matrix products and sums: on what is there, without views between.

Exact, but that XLA may add up in another order where the operands are laid out otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.hlo.ops.reduction import kept_axes
from tf_memsafe.rewrite.maths import Group, axis_groups, spread, transpose
from tf_memsafe.rewrite.repeats import axes_of
from tf_memsafe.rewrite.rule import Outcome, Uses, rule, rule_with_uses

# --- transposes ---------------------------------------------------------------------------------


@rule("dot_general")
def transposed_factor(node: Node) -> Outcome:
    """dot(transpose(x), y) => dot(x, y) along x's own axes"""
    for side, operand in enumerate(node.operands):
        if operand.name == "transpose":
            numbers = _through_transpose(node["dot_dimension_numbers"], side, operand)
            if numbers is not None:
                factors = list(node.operands)
                factors[side] = operand.operands[0]
                return _product(node, factors, numbers)
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


@rule_with_uses("transpose")
def transposed_product(node: Node, uses: Uses) -> Outcome:
    """transpose(dot(x, y)) => dot(y, x), if nothing else uses the product"""
    product = node.operands[0]
    if product.name != "dot_general" or uses.only_user(product) is None:
        return None
    numbers: DotNumbers = product["dot_dimension_numbers"]
    batch = len(numbers.lhs_batching)
    right = batch + len(numbers.free_axes(0, product.operands[0].tensor.rank))
    axes = tuple(range(node.tensor.rank))
    if node["permutation"] != (*axes[:batch], *axes[right:], *axes[batch:right]):
        return None
    turned = DotNumbers(numbers[1], numbers[0], numbers[3], numbers[2])
    precision = product["precision_config"][::-1]
    return _product(product, product.operands[::-1], turned, precision)


@rule("reduce")
def reduction_of_transpose(node: Node) -> Outcome:
    """sum(transpose(x), 0) => sum(x, 1), and other reductions of one tensor"""
    view = node.operands[0]
    if len(node.operands) != 2 or view.name != "transpose":
        return None
    permutation, x = view["permutation"], view.operands[0]
    kept = [permutation[axis] for axis in kept_axes(node)]
    reduced = sorted(permutation[axis] for axis in node["dimensions"])
    order = [sorted(kept).index(axis) for axis in kept]
    return transpose(_reduction(node, x, reduced), order)


# --- reshapes -----------------------------------------------------------------------------------


@rule("reduce")
def reduction_of_reshape(node: Node) -> Outcome:
    """sum(reshape(x), 0) => reshape(sum(x, (0, 1))), if the reshape merged axes of x"""
    view = node.operands[0]
    if len(node.operands) != 2 or view.name != "reshape":
        return None
    x = view.operands[0]
    groups = axis_groups(x.shape, view.shape)
    if groups is None or not _only_merges(groups):
        return None
    reduced = {*node["dimensions"]}
    if any(view.shape[axis] == 1 for axis in reduced):
        return None
    axes = sorted(axis for before, (after,) in groups if after in reduced for axis in before)
    return build.reshape(_reduction(node, x, axes), node.shape)


@rule("dot_general")
def merged_axes(node: Node) -> Outcome:
    """dot(reshape(x), y) => reshape(dot(x, y)), if the reshape merged axes of x

    Axes that are summed, or that belong to the batch, have to be merged alike in x and y.
    """
    numbers: DotNumbers = node["dot_dimension_numbers"]
    sides = [_split(operand) for operand in node.operands]
    if not _alike(sides, numbers):
        merged = [_merges(side, *numbers[position::2]) for position, side in enumerate(sides)]
        whole = [_whole(operand) for operand in node.operands]
        sides = [whole[n] if merged[n] else sides[n] for n in (0, 1)]
    factors = [side.node for side in sides]
    if factors == list(node.operands):
        return None
    fields = [
        tuple(axis for merged in axes for axis in sides[field % 2].axes[merged])
        for field, axes in enumerate(numbers)
    ]
    return build.reshape(_product(node, factors, DotNumbers(*fields)), node.shape)


class _Side(NamedTuple):
    """A factor, and its axes for each axis of what the product has in its place."""

    node: Node
    axes: Sequence[Sequence[int]]


def _split(view: Node) -> _Side:
    """What a reshape merges axes of; any other factor as it is."""
    if view.name == "reshape" and 1 not in (*view.shape, *view.operands[0].shape):
        x = view.operands[0]
        groups = axis_groups(x.shape, view.shape)
        if groups is not None and _only_merges(groups):
            return _Side(x, [before for before, _ in groups])
    return _whole(view)


def _whole(node: Node) -> _Side:
    return _Side(node, [[axis] for axis in range(node.tensor.rank)])


def _alike(sides: Sequence[_Side], numbers: DotNumbers) -> bool:
    """Whether the axes that the factors share are merged from axes of the same sizes."""
    x, y = sides
    return all(
        [x.node.shape[axis] for axis in x.axes[left]]
        == [y.node.shape[axis] for axis in y.axes[right]]
        for left, right in numbers.shared_axes()
    )


def _merges(side: _Side, batch: Sequence[int], summed: Sequence[int]) -> bool:
    """Whether axes that the factors share are merged."""
    return any(len(side.axes[axis]) > 1 for axis in (*batch, *summed))


def _only_merges(groups: Sequence[Group]) -> bool:
    """Whether a reshape merges some axes and splits none."""
    return all(len(after) == 1 for _, after in groups) and any(len(b) > 1 for b, _ in groups)


@rule("reduce")
def reduction_of_broadcast(node: Node) -> Outcome:
    """sum(broadcast(x), 0) => broadcast(sum(x, 0)), if x varies along what is summed"""
    found = axes_of(node.operands[0])
    if len(node.operands) != 2 or found is None or not {*node["dimensions"]} <= {*found.axes}:
        return None
    if len(found.axes) == node.operands[0].tensor.rank:
        return None
    reduced = [found.axes.index(axis) for axis in node["dimensions"]]
    kept = kept_axes(node)
    places = [kept.index(axis) for axis in found.axes if axis in kept]
    return build.broadcast(_reduction(node, found.node, reduced), node.shape, places)


# --- products of nothing ------------------------------------------------------------------------


@rule("dot_general")
def nothing_summed(node: Node) -> Outcome:
    """dot(x, y), with no axis summed and all of x in the batch => broadcast(x) * y"""
    numbers: DotNumbers = node["dot_dimension_numbers"]
    ranks = [operand.tensor.rank for operand in node.operands]
    outer = all(numbers.free_axes(side, rank) for side, rank in enumerate(ranks))
    if numbers.lhs_contracting or outer or node.dtype != node.operands[0].dtype:
        return None
    axes = numbers.result_axes(*ranks)
    factors = []
    for side, operand in enumerate(node.operands):
        places = {pair[side]: axis for axis, pair in enumerate(axes)}
        into = [places[axis] for axis in range(operand.tensor.rank)]
        factors.append(spread(operand, into, node.shape))
    return build.multiply(*factors)


# --- builders -----------------------------------------------------------------------------------


def _product(
    like: Node, factors: Sequence[Node], numbers: DotNumbers, precision: object = None
) -> Node:
    """A product of other factors, of the dtype and precision of `like`."""
    attributes = {
        "dot_dimension_numbers": numbers,
        "precision_config": precision or like["precision_config"],
    }
    return build.emit("dot_general", factors, attributes, type=like.type)


def _reduction(like: Node, x: Node, axes: Sequence[int]) -> Node:
    attributes = {"dimensions": tuple(axes)}
    return build.emit("reduce", (x, like.operands[1]), attributes, regions=like.regions)
