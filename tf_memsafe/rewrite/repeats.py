"""What a tensor repeats, and along which of its axes that varies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.rewrite.maths import axis_groups, spread


class Repeated(NamedTuple):
    """A tensor, and the axis of a larger one that each of its axes goes to, in ascending order."""

    node: Node
    axes: tuple[int, ...]


def axes_of(node: Node) -> Repeated | None:
    """What a broadcast repeats; None for any other node, and for one that is not in plain form.

    In plain form the axes are in order, and none of them is of one element that is repeated.
    """
    if node.name != "broadcast_in_dim":
        return None
    x, axes = node.operands[0], node["broadcast_dimensions"]
    plain = all(size == node.shape[axis] for size, axis in zip(x.shape, axes, strict=True))
    return Repeated(x, axes) if plain and list(axes) == sorted(axes) else None


def reshaped_broadcast(node: Node, shape: Sequence[int]) -> Node | None:
    """The broadcast of a reshape that equals the reshape of a broadcast; None if there is none.

    There is none if an axis that varies and one that repeats become one.
    """
    found = axes_of(node)
    groups = axis_groups(node.shape, shape) if found else None
    if found is None or groups is None:
        return None
    axes: list[int] = []
    for before, after in groups:
        varying = [axis for axis in before if axis in found.axes]
        if varying == before:
            axes += after
        elif varying:
            return None
    x = build.reshape(found.node, [shape[axis] for axis in axes])
    return build.broadcast(x, shape, axes)


def transposed_broadcast(node: Node, shape: Sequence[int], places: Sequence[int]) -> Node | None:
    """A broadcast to `shape`, with what was axis i at places[i]; None if it is no broadcast."""
    found = axes_of(node)
    if found is None:
        return None
    return spread(found.node, [places[axis] for axis in found.axes], shape)
