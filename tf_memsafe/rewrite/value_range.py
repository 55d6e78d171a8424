"""What is known of the integers that are made of iotas and constants, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.ops.structure import literal
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.maths import VIEWS, integer_range
from tf_memsafe.rewrite.rule import Outcome, rule

Range = tuple[int, int]
"""The smallest and the largest value."""

DEEPEST = 8
"""Nodes between a value and the iotas and constants it is made of, for its range to be known."""

ALWAYS: dict[str, Callable[[Range, Range], bool]] = {
    "LT": lambda x, y: x[1] < y[0],
    "LE": lambda x, y: x[1] <= y[0],
    "GT": lambda x, y: x[0] > y[1],
    "GE": lambda x, y: x[0] >= y[1],
    "EQ": lambda x, y: x[0] == x[1] == y[0] == y[1],
    "NE": lambda x, y: x[1] < y[0] or y[1] < x[0],
}
"""Whether a comparison holds for all values of two ranges."""

OPPOSITE = {"LT": "GE", "LE": "GT", "GT": "LE", "GE": "LT", "EQ": "NE", "NE": "EQ"}


@rule("compare")
def decided_comparison(node: Node) -> Outcome:
    """iota(n) < n => true, and other comparisons that hold, or fail, everywhere"""
    x, y = map(value_range, node.operands)
    if x is None or y is None:
        return None
    direction = node["comparison_direction"].value
    if ALWAYS[direction](x, y):
        return build.broadcast(build.constant(True, TensorType("i1")), node.shape)
    if ALWAYS[OPPOSITE[direction]](x, y):
        return build.broadcast(build.constant(False, TensorType("i1")), node.shape)
    return None


def value_range(node: Node, depth: int = DEEPEST) -> Range | None:
    """The range of an integer tensor; None if it is not made of iotas and constants alone."""
    limits = integer_range(node.dtype)
    if limits is None or not node.tensor.size or not depth:
        return None
    found = _unlimited_range(node, depth - 1)
    return found if found and limits[0] <= found[0] and found[1] <= limits[1] else None


def _unlimited_range(node: Node, depth: int) -> Range | None:
    if node.name in VIEWS:
        return value_range(node.operands[0], depth)
    if node.name == "iota":
        return (0, node.shape[node["iota_dimension"]] - 1)
    if node.name == "constant":
        values = literal(node)
        return (int(np.min(values)), int(np.max(values)))
    if node.name not in ("add", "subtract"):
        return None
    x, y = (value_range(operand, depth) for operand in node.operands)
    if x is None or y is None:
        return None
    return (x[0] + y[0], x[1] + y[1]) if node.name == "add" else (x[0] - y[1], x[1] - y[0])
