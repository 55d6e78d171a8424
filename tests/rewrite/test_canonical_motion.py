"""Reshapes and transposes stand late, slices and splits of axes early."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.rewrite.canonical_form import Make, body, canonical, canonical_of, parameters
from tests.rewrite.rewriting import assert_same_bits, graph_for, rules, shown
from tests.split.planning import floats
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.rewrite.canonical import CANONICAL
from tf_memsafe.rewrite.driver import apply
from tf_memsafe.rewrite.maths import filled, transpose


def join(axis: int, *parts: Node) -> Node:
    return build.emit("concatenate", parts, {"dimension": axis})


def part(x: Node, start: int, limit: int, axis: int = 0) -> Node:
    return build.part(x, axis, start, limit)


# --- late: reshapes and transposes --------------------------------------------------------------

LATE: dict[str, tuple[Make, list[str]]] = {
    "one reshape": (
        lambda x: build.emit("tanh", (build.reshape(x, (24,)),)),
        ["%2 = tanh(%1) : f32[4,6]", "%3 = reshape(%2) : f32[24]"],
    ),
    "two reshapes": (
        lambda x: build.multiply(
            build.reshape(x, (24,)), build.reshape(build.emit("tanh", (x,)), (24,))
        ),
        [
            "%2 = tanh(%1) : f32[4,6]",
            "%3 = multiply(%1, %2) : f32[4,6]",
            "%4 = reshape(%3) : f32[24]",
        ],
    ),
    "a reshape and what repeats": (
        lambda x: build.multiply(build.reshape(x, (2, 2, 6)), filled(2, x, (2, 2, 6))),
        [
            "%2 = constant() 2.0 : f32[]",
            "%3 = broadcast_in_dim(%2) broadcast_dimensions=[] : f32[4,6]",
            "%4 = multiply(%1, %3) : f32[4,6]",
            "%5 = reshape(%4) : f32[2,2,6]",
        ],
    ),
    "a conversion": (
        lambda x: build.convert(build.reshape(x, (24,)), "f64"),
        ["%2 = convert(%1) : f64[4,6]", "%3 = reshape(%2) : f64[24]"],
    ),
    "two transposes": (
        lambda x: build.multiply(transpose(x, (1, 0)), transpose(build.emit("tanh", (x,)), (1, 0))),
        [
            "%2 = tanh(%1) : f32[4,6]",
            "%3 = multiply(%1, %2) : f32[4,6]",
            "%4 = transpose(%3) permutation=[1,0] : f32[6,4]",
        ],
    ),
}


@pytest.mark.parametrize("name", LATE)
def test_views_stand_late(name: str) -> None:
    make, expected = LATE[name]
    assert body(canonical(make)) == expected


def test_a_transpose_and_what_repeats() -> None:
    x, y = parameters((4, 6), (4,))
    both = build.add(transpose(x, (1, 0)), build.broadcast(y, (6, 4), (1,)))
    assert body(canonical_of(both)) == [
        "%3 = broadcast_in_dim(%2) broadcast_dimensions=[0] : f32[4,6]",
        "%4 = add(%1, %3) : f32[4,6]",
        "%5 = transpose(%4) permutation=[1,0] : f32[6,4]",
    ]


def test_views_that_differ_stay() -> None:
    x, y = parameters((4, 6), (24,))
    for other in (y, build.reshape(part(y, 0, 24), (24,))):
        assert "reshape_of_operands" not in rules(
            canonical_of(build.add(build.reshape(x, (24,)), other))
        )
    turned = build.add(transpose(x, (1, 0)), build.reshape(y, (6, 4)))
    assert not canonical_of(turned).rewrites


# --- early: splits of axes ----------------------------------------------------------------------


def pairs(x: Node, y: Node) -> Node:
    """All sums of a row of x [2, 5, 8] and a row of y [3, 6, 8], as [10, 18, 8]."""
    left = build.broadcast(build.reshape(x, (10, 8)), (10, 18, 8), (0, 2))
    right = build.broadcast(build.reshape(y, (18, 8)), (10, 18, 8), (1, 2))
    return build.add(left, right)


def test_splits_of_a_result_are_splits_of_what_it_is_made_of() -> None:
    x, y = parameters((2, 5, 8), (3, 6, 8))
    split = build.reshape(build.emit("tanh", (pairs(x, y),)), (2, 5, 3, 6, 8))
    assert body(canonical_of(split)) == [
        "%3 = broadcast_in_dim(%1) broadcast_dimensions=[0,1,4] : f32[2,5,3,6,8]",
        "%4 = broadcast_in_dim(%2) broadcast_dimensions=[2,3,4] : f32[2,5,3,6,8]",
        "%5 = add(%3, %4) : f32[2,5,3,6,8]",
        "%6 = tanh(%5) : f32[2,5,3,6,8]",
    ]


def test_but_not_if_that_would_leave_a_reshape_or_compute_twice() -> None:
    x, y, z = parameters((2, 5, 8), (3, 6, 8), (10, 18, 8))
    added = build.reshape(build.add(pairs(x, y), z), (2, 5, 3, 6, 8))
    assert "split_of_result" not in rules(canonical_of(added))
    both = pairs(x, y)
    twice = canonical_of(build.reshape(both, (2, 5, 3, 6, 8)), build.emit("tanh", (both,)))
    assert "split_of_result" not in rules(twice)


# --- early: slices ------------------------------------------------------------------------------

JOINED: dict[str, tuple[tuple[int, int], str]] = {
    "one part": ((2, 5), "%4 = slice(%1) start_indices=[2] limit_indices=[5] strides=[1] : f32[3]"),
    "a whole part": ((5, 8), ""),
    "the last two": ((6, 9), "%4 = concatenate(%2, %3) dimension=0 : f32[7]"),
}


@pytest.mark.parametrize("name", JOINED)
def test_slices_of_what_was_joined_take_the_parts_they_need(name: str) -> None:
    bounds, expected = JOINED[name]
    x, y, z = parameters((5,), (3,), (4,))
    result = canonical_of(part(join(0, x, y, z), *bounds))
    assert rules(result)[0] == "slice_of_concatenate"
    assert body(result)[:1] == ([expected] if expected else [])
    assert bool(expected) or result.graph.outputs == (y,)


def test_a_slice_with_a_stride_of_what_was_joined() -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
        joined = tf.concat([x, y, x], 1)
        return [joined[:, 7::2], joined[:, 3:9:3], tf.concat([x, y], 0)[5:, ::2]]

    x = tf.reshape(tf.range(24.0), [4, 6])
    assert_same_bits(CANONICAL, function, x, -x)


def test_slices_of_a_result_are_slices_of_what_it_is_made_of() -> None:
    x, y, z = parameters((5,), (3,), (8,))
    product = build.multiply(build.emit("tanh", (join(0, x, y),)), z)
    result = canonical_of(part(product, 0, 5), part(product, 5, 8))
    assert body(result) == [
        "%4 = tanh(%1) : f32[5]",
        "%5 = slice(%3) start_indices=[0] limit_indices=[5] strides=[1] : f32[5]",
        "%6 = multiply(%4, %5) : f32[5]",
        "%7 = tanh(%2) : f32[3]",
        "%8 = slice(%3) start_indices=[5] limit_indices=[8] strides=[1] : f32[3]",
        "%9 = multiply(%7, %8) : f32[3]",
    ]


def test_a_slice_passes_a_transpose() -> None:
    x, y = parameters((4, 5), (4, 3))
    turned = transpose(join(1, x, y), (1, 0))
    assert body(canonical_of(part(turned, 0, 5))) == [
        "%3 = transpose(%1) permutation=[1,0] : f32[5,4]"
    ]


SLICED_LATE: dict[str, Make] = {
    "overlapping": lambda x: build.add(
        part(join_tanh(x), 0, 7), build.emit("negate", (part(join_tanh(x), 1, 8),))
    ),
    "used whole as well": lambda x: join(0, part(join_tanh(x), 0, 4), join_tanh(x)),
    "of nothing joined": lambda x: part(build.emit("tanh", (x,)), 0, 2),
}


def join_tanh(x: Node) -> Node:
    return build.emit("tanh", (join(0, x, build.emit("sine", (x,))),))


@pytest.mark.parametrize("name", SLICED_LATE)
def test_slices_that_would_compute_twice_or_save_nothing_stay(name: str) -> None:
    assert "slice_of_result" not in rules(canonical(SLICED_LATE[name]))


def test_what_is_cheap_may_be_computed_twice() -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        steps = 2.0 * tf.concat([x, y], 0)
        return steps[:5] - steps[1:6]

    lines = shown(apply(CANONICAL, graph_for(function, floats(5), floats(3))).graph)
    assert [line[-6:] for line in lines if "multiply" in line] == ["f32[5]"] * 2


def test_a_chain_that_is_too_long_to_pass_is_left() -> None:
    x, y = parameters((5,), (3,))
    chain = join(0, x, y)
    for _ in range(1000):
        chain = build.emit("tanh", (chain,))
    assert not canonical_of(part(chain, 0, 5), part(chain, 5, 8)).rewrites
