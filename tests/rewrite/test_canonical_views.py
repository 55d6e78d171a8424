"""One view in place of several, and what repeats as near the result as it can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.rewrite.canonical_form import (
    MATRIX,
    Make,
    body,
    canonical,
    canonical_of,
    iota,
    parameters,
)
from tests.rewrite.rewriting import rules
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.maths import filled, slice_of, sum_over, transpose


def pad(low: int, high: int) -> Make:
    attributes = {
        "edge_padding_low": (low, 0),
        "edge_padding_high": (high, 0),
        "interior_padding": (0, 0),
    }
    return lambda x: build.emit("pad", (x, build.zeros(TensorType("f32"))), attributes)


def square(x: Node) -> Node:
    return slice_of(x, (0, 0), (4, 4), (1, 1))


UNCHANGED: dict[str, Make] = {
    "reshape": lambda x: build.emit("reshape", (x,), type=x.type),
    "convert": lambda x: build.emit("convert", (x,), type=x.type),
    "transpose": lambda x: build.emit("transpose", (x,), {"permutation": (0, 1)}),
    "slice": lambda x: slice_of(x, (0, 0), (4, 6), (1, 1)),
    "dynamic slice": lambda x: build.dynamic_slice(x, [build.index(3)] * 2, (4, 6)),
    "concatenate one": lambda x: build.emit("concatenate", (x,), {"dimension": 0}),
    "concatenate nothing": lambda x: build.emit(
        "concatenate", (x, slice_of(x, (2, 0), (2, 6), (1, 1))), {"dimension": 0}
    ),
    "reverse one": lambda x: build.reshape(
        build.emit("reverse", (build.reshape(x, (4, 1, 6)),), {"dimensions": (1,)}), (4, 6)
    ),
    "broadcast": lambda x: build.emit(
        "broadcast_in_dim", (x,), {"broadcast_dimensions": (0, 1)}, type=x.type
    ),
    "pad": pad(0, 0),
    "reshape and back": lambda x: build.reshape(build.reshape(x, (24,)), (4, 6)),
    "transpose and back": lambda x: transpose(transpose(x, (1, 0)), (1, 0)),
    "broadcast and slice": lambda x: build.reshape(
        slice_of(build.broadcast(x, (3, 4, 6), (1, 2)), (1, 0, 0), (2, 4, 6), (1, 1, 1)), (4, 6)
    ),
    "sum of one": lambda x: sum_over(build.reshape(x, (4, 1, 6)), (1,)),
    "ones transposed": lambda x: build.reshape(
        transpose(build.reshape(x, (4, 1, 6)), (1, 0, 2)), (4, 6)
    ),
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_what_changes_nothing_is_dropped(name: str) -> None:
    result = canonical(UNCHANGED[name])
    assert result.graph.outputs == result.graph.parameters
    assert result.rewrites


KEPT: dict[str, Make] = {
    "padding that makes up for cropping": pad(1, -1),
    "a transpose": lambda x: transpose(x, (1, 0)),
    "a square transposed": lambda x: transpose(square(x), (1, 0)),
    "a square with its axes exchanged": lambda x: build.broadcast(square(x), (4, 4), (1, 0)),
    "a reversal": lambda x: build.emit("reverse", (x,), {"dimensions": (1,)}),
    "rows that become columns": lambda x: build.reshape(x, (6, 4)),
    "a sum": lambda x: sum_over(x, (1,)),
    "a sum that starts at 1": lambda x: sum_over(build.reshape(x, (4, 1, 6)), (1,), initial=1),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_changes_something_is_kept(name: str) -> None:
    assert not canonical(KEPT[name]).rewrites


def test_chains_of_views_are_merged() -> None:
    def views(x: Node) -> Node:
        cube = build.reshape(build.reshape(x, (2, 12)), (2, 3, 4))
        turned = transpose(transpose(cube, (1, 2, 0)), (2, 0, 1))
        part = slice_of(
            slice_of(turned, (0, 1, 0), (2, 3, 4), (1, 1, 2)), (0,) * 3, (1, 2, 2), (1,) * 3
        )
        return build.broadcast(
            build.broadcast(part, (1, 2, 2, 5), (0, 1, 2)), (7, 2, 2, 5, 1), (0, 1, 2, 3)
        )

    assert body(canonical(views)) == [
        "%2 = reshape(%1) : f32[2,3,4]",
        "%3 = slice(%2) start_indices=[0,1,0] limit_indices=[1,3,3] strides=[1,1,2] : f32[1,2,2]",
        "%4 = reshape(%3) : f32[2,2]",
        "%5 = broadcast_in_dim(%4) broadcast_dimensions=[1,2] : f32[7,2,2,5,1]",
    ]


# --- constants ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [2.5, np.nan, -0.0, np.inf])
def test_constants_that_repeat_a_value(value: float) -> None:
    for array in (np.full((4, 6), value), value):
        constant = build.constant(array, MATRIX)
        single = build.constant(value, TensorType("f32"))
        assert canonical_of(constant).graph.outputs == (build.broadcast(single, (4, 6)),)


@pytest.mark.parametrize("value", [[0.0, -0.0], [[1.0, 2.0], [1.0, 2.0]], 3.0, np.zeros((0, 2))])
def test_constants_that_do_not(value: Any) -> None:
    constant = build.constant(value, TensorType("f32", np.shape(value)))
    assert not canonical_of(constant).rewrites


# --- what repeats -------------------------------------------------------------------------------


def wide(x: Node) -> Node:
    return build.broadcast(x, (4, 5, 6), (0, 2))


REPEATED: dict[str, tuple[Callable[[Node], Node], list[str]]] = {
    "reshaped": (
        lambda x: build.reshape(wide(x), (2, 2, 5, 3, 2)),
        [
            "%2 = reshape(%1) : f32[2,2,3,2]",
            "%3 = broadcast_in_dim(%2) broadcast_dimensions=[0,1,3,4] : f32[2,2,5,3,2]",
        ],
    ),
    "transposed": (
        lambda x: transpose(wide(x), (2, 1, 0)),
        [
            "%2 = transpose(%1) permutation=[1,0] : f32[6,4]",
            "%3 = broadcast_in_dim(%2) broadcast_dimensions=[0,2] : f32[6,5,4]",
        ],
    ),
    "sliced": (
        lambda x: slice_of(wide(x), (1, 2, 0), (3, 5, 6), (1, 1, 1)),
        [
            "%2 = slice(%1) start_indices=[1,0] limit_indices=[3,6] strides=[1,1] : f32[2,6]",
            "%3 = broadcast_in_dim(%2) broadcast_dimensions=[0,2] : f32[2,3,6]",
        ],
    ),
    "computed with": (
        lambda x: build.emit("tanh", (build.multiply(wide(x), filled(2, x, (4, 5, 6))),)),
        [
            "%2 = constant() 2.0 : f32[]",
            "%3 = broadcast_in_dim(%2) broadcast_dimensions=[] : f32[4,6]",
            "%4 = multiply(%1, %3) : f32[4,6]",
            "%5 = tanh(%4) : f32[4,6]",
            "%6 = broadcast_in_dim(%5) broadcast_dimensions=[0,2] : f32[4,5,6]",
        ],
    ),
    "converted": (
        lambda x: build.convert(wide(x), "f64"),
        [
            "%2 = convert(%1) : f64[4,6]",
            "%3 = broadcast_in_dim(%2) broadcast_dimensions=[0,2] : f64[4,5,6]",
        ],
    ),
    "summed": (
        lambda x: sum_over(wide(x), (2,)),
        [
            "%2 = constant() 0.0 : f32[]",
            "%3 = reduce(%1, %2) dimensions=[1] : f32[4]",
            "%7 = broadcast_in_dim(%3) broadcast_dimensions=[0] : f32[4,5]",
        ],
    ),
}


@pytest.mark.parametrize("name", REPEATED)
def test_what_repeats_is_repeated_last(name: str) -> None:
    make, expected = REPEATED[name]
    assert body(canonical(make)) == expected


def test_two_tensors_that_repeat_along_one_axis() -> None:
    x, y = parameters((4,), (6,))
    both = build.add(build.broadcast(x, (4, 5, 6), (0,)), build.broadcast(y, (4, 5, 6), (2,)))
    (output,) = canonical_of(both).graph.outputs
    assert output["broadcast_dimensions"] == (0, 2)
    assert (output.operands[0].name, output.operands[0].shape) == ("add", (4, 6))


NOT_REPEATED: dict[str, Make] = {
    "along other axes": lambda x: build.subtract(
        build.broadcast(x, (4, 6, 4, 6), (0, 1)), build.broadcast(x, (4, 6, 4, 6), (2, 3))
    ),
    "merged with what repeats": lambda x: build.reshape(wide(x), (20, 6)),
    "summed along what repeats": lambda x: sum_over(wide(x), (1,)),  # it would be rounded apart
    "with what does not repeat": lambda x: build.add(
        x, build.broadcast(slice_of(x, (0, 0), (1, 6), (1, 1)), (4, 6), (0, 1))
    ),
}


@pytest.mark.parametrize("name", NOT_REPEATED)
def test_what_does_not_repeat_as_a_whole(name: str) -> None:
    fired = set(rules(canonical(NOT_REPEATED[name])))
    assert fired <= {"broadcast_of_ones"}


def test_a_choice_by_one_value_repeats() -> None:
    flag, x = parameters(TensorType("i1"), MATRIX)
    chosen = build.emit("select", (flag, wide(x), filled(0, x, (4, 5, 6))))
    (output,) = canonical_of(chosen).graph.outputs
    assert output["broadcast_dimensions"] == (0, 2)
    assert output.operands[0].name == "select"
    assert output.operands[0].operands[0] is flag


def test_an_iota_is_no_constant() -> None:
    assert not canonical_of(iota()).rewrites
