"""canonical, of where views stand: reshapes and transposes late, slices and splits of axes early.

So what is between them has its axes apart, and is no larger than it has to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.rewrite.maths import ELEMENTWISE, axis_groups, slice_of, transpose, with_shape
from tf_memsafe.rewrite.repeats import reshaped_broadcast, transposed_broadcast
from tf_memsafe.rewrite.rule import Outcome, Uses, rule, rule_with_uses

DEEPEST = 100
"""Elementwise ops, one on another, that a view is moved past at once."""

CHEAP = {"add", "subtract", "multiply", "negate", "select", "convert"}
"""Ops that are not worth storing: XLA computes them again too."""

# --- late: reshapes and transposes --------------------------------------------------------------


@rule(*ELEMENTWISE)
def reshape_of_operands(node: Node) -> Outcome:
    """exp(reshape(x)) => reshape(exp(x)), and of several tensors that are reshaped alike"""
    view = _first_view(node, "reshape")
    if view is None:
        return None
    shape = view.operands[0].shape
    operands = [_before_reshape(operand, node.shape, shape) for operand in node.operands]
    known = [operand for operand in operands if operand is not None]
    if len(known) < len(operands):
        return None
    return build.reshape(with_shape(node, known, shape), node.shape)


def _before_reshape(node: Node, shape: Sequence[int], before: Sequence[int]) -> Node | None:
    """What becomes the node when it is reshaped as tensors are whose shape was `before`."""
    if node.shape == () != tuple(shape):
        return node
    if node.name == "reshape":
        return node.operands[0] if node.operands[0].shape == before else None
    return reshaped_broadcast(node, before)


@rule(*ELEMENTWISE)
def transpose_of_operands(node: Node) -> Outcome:
    """exp(transpose(x)) => transpose(exp(x)), and of several tensors that are transposed alike"""
    view = _first_view(node, "transpose")
    if view is None:
        return None
    operands = [_before_transpose(operand, node.shape, view) for operand in node.operands]
    known = [operand for operand in operands if operand is not None]
    if len(known) < len(operands):
        return None
    return transpose(with_shape(node, known, view.operands[0].shape), view["permutation"])


def _before_transpose(node: Node, shape: Sequence[int], view: Node) -> Node | None:
    """What becomes the node when it is transposed as the view is."""
    if node.shape == () != tuple(shape):
        return node
    permutation, before = view["permutation"], view.operands[0].shape
    if node.name == "transpose":
        return node.operands[0] if node["permutation"] == permutation else None
    return transposed_broadcast(node, before, permutation)


def _first_view(node: Node, name: str) -> Node | None:
    return next((operand for operand in node.operands if operand.name == name), None)


# --- early: splits of axes ----------------------------------------------------------------------


@rule_with_uses("reshape")
def split_of_result(node: Node, uses: Uses) -> Outcome:
    """reshape(x + y) => reshape(x) + reshape(y), if it splits axes that x and y had merged"""
    x = node.operands[0]
    if x.name not in ELEMENTWISE:
        return None
    groups = axis_groups(x.shape, node.shape)
    if groups is None or all(len(after) == 1 for _, after in groups):
        return None
    return _split(x, node.shape, uses)


def _split(node: Node, shape: Sequence[int], uses: Uses, depth: int = DEEPEST) -> Node | None:
    """The node reshaped, by reshaping what it is made of; None if that leaves a reshape."""
    if node.name == "reshape":
        return node.operands[0] if node.operands[0].shape == tuple(shape) else None
    if node.name not in ELEMENTWISE:
        return reshaped_broadcast(node, shape)
    if not depth or uses.only_user(node) is None:
        return None
    operands = []
    for operand in node.operands:
        scalar = operand.shape == () != node.shape
        split = operand if scalar else _split(operand, shape, uses, depth - 1)
        if split is None:
            return None
        operands.append(split)
    return with_shape(node, operands, shape)


# --- early: slices ------------------------------------------------------------------------------


class _Slice(NamedTuple):
    starts: tuple[int, ...]
    limits: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(
            -(-(limit - start) // stride) for start, limit, stride in zip(*self, strict=True)
        )

    def of(self, node: Node) -> Node:
        return slice_of(node, *self)

    def permuted(self, axes: Sequence[int]) -> _Slice:
        return _Slice(*(tuple(bounds[axis] for axis in axes) for bounds in self))


def _slice(node: Node) -> _Slice:
    return _Slice(node["start_indices"], node["limit_indices"], node["strides"])


@rule("slice")
def slice_of_concatenate(node: Node) -> Outcome:
    """concatenate(x, y)[a:b] => x[a:b], and no more of the parts than it needs"""
    joined = node.operands[0]
    if joined.name != "concatenate" or not node.tensor.size:
        return None
    axis, (starts, limits, strides) = joined["dimension"], _slice(node)
    kept, begin, offset = [], 0, None
    for part in joined.operands:
        end = begin + part.shape[axis]
        if end > starts[axis] and begin < limits[axis]:
            offset = begin if offset is None else offset
            kept.append(part)
        begin = end
    if len(kept) == len(joined.operands) or offset is None:
        return None
    whole = kept[0]
    if len(kept) > 1:
        whole = build.emit("concatenate", kept, {"dimension": axis}, source=joined.source)
    moved = [list(starts), list(limits)]
    for ends in moved:
        ends[axis] -= offset
    return slice_of(whole, moved[0], moved[1], strides)


@rule_with_uses("slice")
def slice_of_result(node: Node, uses: Uses) -> Outcome:
    """(x + y)[a:b] => x[a:b] + y[a:b], if x or y is a concatenation, a broadcast or a slice

    Also through a transpose. Where slices overlap, what they share is computed twice: only what is
    cheap.
    """
    x = node.operands[0]
    if x.name == "transpose":
        return _sliced(x, _slice(node), uses)
    if x.name not in ELEMENTWISE or x in uses.results:
        return None
    users = uses.users.get(x, [])
    if any(user.name != "slice" for user in users):
        return None
    most = (2 if x.name in CHEAP else 1) * x.tensor.size
    if sum(user.tensor.size for user in users) > most:
        return None
    return _sliced_elements(x, _slice(node), uses)


def _sliced(node: Node, part: _Slice, uses: Uses, depth: int = DEEPEST) -> Node | None:
    """A part of a node, made of parts of what it is made of; None if no less is computed so."""
    if node.name in ("concatenate", "slice"):
        return part.of(node)
    if node.name == "broadcast_in_dim" and node.operands[0].shape:
        return part.of(node)
    if node.name == "transpose":
        moved = part.permuted([node["permutation"].index(a) for a in range(node.tensor.rank)])
        x = _sliced(node.operands[0], moved, uses, depth)
        return None if x is None else transpose(x, node["permutation"])
    if node.name in ELEMENTWISE and depth and uses.only_user(node) is not None:
        return _sliced_elements(node, part, uses, depth - 1)
    return None


def _sliced_elements(node: Node, part: _Slice, uses: Uses, depth: int = DEEPEST) -> Node | None:
    own = [operand for operand in node.operands if operand.shape == node.shape]
    parts = {operand: _sliced(operand, part, uses, depth) for operand in own}
    if all(found is None for found in parts.values()):
        return None
    operands = [
        (parts[operand] or part.of(operand)) if operand in parts else operand
        for operand in node.operands
    ]
    return with_shape(node, operands, part.shape)
