"""The first of what is sorted are top_k."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.ops.makers import comparator, with_region
from tests.hlo.running import names
from tests.rewrite.canonical_form import canonical, canonical_of, iota, parameters
from tests.rewrite.rewriting import assert_same_bits, graph_for, reasons, rules, shown
from tests.split.planning import floats
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.canonical import CANONICAL
from tf_memsafe.rewrite.canonical_order import with_top_k
from tf_memsafe.rewrite.driver import apply
from tf_memsafe.rewrite.maths import slice_of
from tf_memsafe.split.cost import cost


def sort(direction: str, *dtypes: str, stable: bool = True) -> Callable[..., Node]:
    return with_region("sort", comparator(direction, *dtypes), dimension=1, is_stable=stable)


def first(x: Node, start: int = 0) -> Node:
    return slice_of(x, (0, start), (4, start + 3), (1, 1))


FUNCTIONS: dict[str, tuple[Callable[[tf.Tensor], tf.Tensor], str]] = {
    "top_k": (lambda x: tf.math.top_k(x, 3), "return %2.0, %2.1"),
    "values": (lambda x: tf.math.top_k(x, 3).values, "return %2.0"),
    "indices": (lambda x: tf.math.top_k(x, 3).indices, "return %2.1"),
    "sort": (lambda x: tf.sort(x, direction="DESCENDING")[:, :3], "return %2.0"),
    "argsort": (lambda x: tf.argsort(x, direction="DESCENDING")[:, :3], "return %2.1"),
    "top_k of top_k": (lambda x: tf.math.top_k(x, 5).values[:, :3], "return %2.0"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_top_k_is_recognised(name: str) -> None:
    function, returned = FUNCTIONS[name]
    result = apply(CANONICAL, graph_for(function, floats(4, 6)))
    assert shown(result.graph) == [
        "graph(%1: f32[4,6]):",
        "%2 = top_k(%1) k=3 : f32[4,3], i32[4,3]",
        returned,
    ]
    x = np.array([[1, 2, 2, np.nan, -0.0, 0], [np.inf, np.inf, 3, -np.inf, 0, -0.0]], np.float32)
    assert_same_bits(CANONICAL, function, np.tile(x, (2, 1)))


def test_the_first_indices_of_an_ascending_argsort_are_too() -> None:
    lines = shown(apply(CANONICAL, graph_for(lambda x: tf.argsort(x)[:, :3], floats(4, 6))).graph)
    assert lines[1:] == [
        "%2 = negate(%1) : f32[4,6]",
        "%3 = top_k(%2) k=3 : f32[4,3], i32[4,3]",
        "return %3.1",
    ]


def test_slices_of_one_sort_share_one_top_k() -> None:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        top = tf.math.top_k(x, 6)
        return [top.values[:, :2], top.indices[:, :3]]

    lines = shown(apply(CANONICAL, graph_for(function, floats(4, 6))).graph)
    assert [line for line in lines if "top_k" in line] == [
        "%2 = top_k(%1) k=3 : f32[4,3], i32[4,3]"
    ]


def test_the_first_of_sorted_integers_are_too() -> None:
    type_ = TensorType("i32", (4, 6))
    assert rules(canonical(lambda x: first(sort("GT", "i32")(x)), type_)) == ["sorted_prefix"]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda x: first(sort("GT", "f32")(x), 1), "other elements than the first"),
        (lambda x: first(sort("LT", "f32")(x)), "not a descending sort"),
        (lambda x: first(sort("GT", "f32")(x)), "not a descending sort"),  # not in total order
        (
            lambda x: first(build.results(sort("GT", "f32", "i32", stable=False)(x, iota()))[0]),
            "not a",
        ),
    ],
)
def test_other_sorts_are_left_alone(make: Callable[[Node], Node], reason: str) -> None:
    assert reason in reasons(canonical(make))["sorted_prefix"]


def test_what_is_sorted_for_others_is_not_sorted_again() -> None:
    (x,) = parameters(TensorType("i32", (4, 6)))
    ordered = sort("GT", "i32")(x)
    for other in (ordered, build.emit("negate", (ordered,))):
        result = canonical_of(first(ordered), other)
        assert reasons(result)["sorted_prefix"] == "all that is sorted is used as well"


def test_a_top_k_costs_what_xla_makes_of_it() -> None:
    """XLA has a call for the first of f32, and sorts all of another dtype."""
    graphs = [
        graph_for(lambda x: tf.math.top_k(x, 3), tf.TensorSpec([4, 1000], dtype))
        for dtype in (tf.float32, tf.float64)
    ]
    single, double = map(with_top_k, graphs)
    assert "sort" in names(graphs[0]) - names(single)
    assert 50 * cost(single) < cost(double) == cost(graphs[1])
