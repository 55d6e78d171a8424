"""Small nodes whose results are parts of an operand, or have their operands as parts."""

from __future__ import annotations

import math
from collections.abc import Callable

from tests.hlo.ops.makers import (
    PADDED,
    RANGE,
    Instance,
    binary,
    dilations,
    emit,
    floats,
    window,
    with_region,
)
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.ops.window import Padding


def rows(start: int, limit: int, stride: int = 1) -> Callable[..., Node]:
    """A slice of the first of two axes; the second has two elements."""
    return emit("slice", start_indices=(start, 0), limit_indices=(limit, 2), strides=(stride, 1))


def rows_added(low: int, high: int, interior: int = 0) -> Callable[..., Node]:
    return emit(
        "pad",
        edge_padding_low=(low, 0),
        edge_padding_high=(high, 0),
        interior_padding=(interior, 0),
    )


PARTS: list[Instance] = [
    Instance("slice", (floats(4, 6),), emit("slice", **RANGE), (0,)),
    Instance("slice of rows", (floats(9, 2),), rows(2, 8), (0, 1)),
    Instance("slice with a stride", (floats(10, 2),), rows(2, 8, 2), (0, 1)),
    Instance("slice past the end", (floats(8, 2),), rows(1, 8, 3), (1,)),
    Instance("pad", (floats(4, 6), floats()), emit("pad", **PADDED), (0,)),
    Instance("pad of rows", (floats(4, 2), floats()), rows_added(2, 4), (0, 1)),
    Instance("pad less", (floats(6, 2), floats()), rows_added(-2, 2), (0, 1)),
    Instance("pad inside", (floats(4, 2), floats()), rows_added(0, 0, 1), (1,)),
    Instance("concatenate", (floats(4, 2), floats(4, 6)), emit("concatenate", dimension=1), (0, 1)),
    Instance(
        "concatenate with nothing",
        (floats(0, 2), floats(4, 2), floats(2, 2)),
        emit("concatenate", dimension=0),
        (0, 1),
    ),
]
"""Slices, pads and concatenations."""


def accumulated(kind: str, neutral: float, low: int, high: int) -> Callable[..., Node]:
    """The results of an op so far along the first of two axes, from either end."""
    axes = {**window((low + high + 1, 1), (1, 1)), **dilations(2)}
    padding = Padding(((low, high), (0, 0)))
    make = with_region("reduce_window", binary(kind), **{**axes, "padding": padding})
    return lambda operand: make(operand, build.constant(neutral, floats()))


CUMULATIVE: list[Instance] = [
    Instance("cumulative sum", (floats(6, 4),), accumulated("add", 0, 5, 0), (0, 1)),
    Instance("from the end", (floats(6, 4),), accumulated("add", 0, 0, 5), (0, 1)),
    Instance(
        "cumulative maximum", (floats(6, 4),), accumulated("maximum", -math.inf, 5, 0), (0, 1)
    ),
]
