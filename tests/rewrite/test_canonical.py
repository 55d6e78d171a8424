"""One spelling of each thing, exact to the last bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.ops.makers import comparator, dot, with_region
from tests.rewrite.rewriting import assert_same_bits, graph_for, reasons, rules, shown, special
from tests.split.planning import floats
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.canonical import CANONICAL, is_widening
from tf_memsafe.rewrite.driver import Rewritten, apply
from tf_memsafe.rewrite.maths import filled, slice_of, transpose

MATRIX = TensorType("f32", (4, 6))
EDGES = (0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45)
X = special(np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32), EDGES[:4])


def canonical(make: Callable[[Node], Node], type_: TensorType = MATRIX) -> Rewritten:
    (x,) = build.region_parameters([type_])
    return apply(CANONICAL, Graph((x,), (make(x),)))


def body(result: Rewritten) -> list[str]:
    """The graph's lines between the parameters and the results."""
    return shown(result.graph)[1:-1]


def convert(*dtypes: str) -> Callable[[Node], Node]:
    def make(x: Node) -> Node:
        for dtype in dtypes:
            x = build.convert(x, dtype)
        return x

    return make


def pad(low: int, high: int) -> Callable[[Node], Node]:
    attributes = {
        "edge_padding_low": (low, 0),
        "edge_padding_high": (high, 0),
        "interior_padding": (0, 0),
    }
    return lambda x: build.emit("pad", (x, build.zeros(TensorType("f32"))), attributes)


UNCHANGED: dict[str, Callable[[Node], Node]] = {
    "reshape": lambda x: build.emit("reshape", (x,), type=x.type),
    "convert": lambda x: build.emit("convert", (x,), type=x.type),
    "transpose": lambda x: build.emit("transpose", (x,), {"permutation": (0, 1)}),
    "slice": lambda x: slice_of(x, (0, 0), (4, 6), (1, 1)),
    "broadcast": lambda x: build.emit(
        "broadcast_in_dim", (x,), {"broadcast_dimensions": (0, 1)}, type=x.type
    ),
    "pad": pad(0, 0),
    "reshape and back": lambda x: build.reshape(build.reshape(x, (24,)), (4, 6)),
    "transpose and back": lambda x: transpose(transpose(x, (1, 0)), (1, 0)),
    "widen and back": convert("f64", "f32"),
    "times one": lambda x: build.multiply(filled(1, x, x.shape), x),
    "by one": lambda x: build.emit("divide", (x, filled(1, x, x.shape))),
    "minus zero": lambda x: build.subtract(x, filled(0, x, x.shape)),
    "first power": lambda x: build.emit("power", (x, filled(1, x, x.shape))),
    "minus minus": lambda x: build.emit("negate", (build.emit("negate", (x,)),)),
    "chosen": lambda x: build.emit("select", (build.compare(iota(), ten(), "LT"), x, x)),
    "always chosen": lambda x: build.emit(
        "select", (build.compare(iota(), ten(), "LT"), x, filled(0, x, x.shape))
    ),
}


def iota() -> Node:
    return build.emit("iota", (), {"iota_dimension": 1}, type=TensorType("i32", (4, 6)))


def ten() -> Node:
    return build.constant(10, TensorType("i32", (4, 6)))


@pytest.mark.parametrize("name", UNCHANGED)
def test_what_changes_nothing_is_dropped(name: str) -> None:
    result = canonical(UNCHANGED[name])
    assert result.graph.outputs == result.graph.parameters
    assert result.rewrites


KEPT: dict[str, Callable[[Node], Node]] = {
    "narrow and back": convert("f16", "f32"),
    "to integers and back": convert("i32", "f32"),
    "padding that makes up for cropping": pad(1, -1),
    "a transpose": lambda x: transpose(x, (1, 0)),
    "a square transposed": lambda x: transpose(slice_of(x, (0, 0), (4, 4), (1, 1)), (1, 0)),
    "a square with its axes exchanged": lambda x: build.broadcast(
        slice_of(x, (0, 0), (4, 4), (1, 1)), (4, 4), (1, 0)
    ),
    "minus minus zero": lambda x: build.subtract(x, filled(-0.0, x, x.shape)),
    "plus zero": lambda x: build.add(x, filled(0, x, x.shape)),  # -0.0 + 0.0 is 0.0
    "times zero": lambda x: build.multiply(x, filled(0, x, x.shape)),  # 0 * inf is NaN
    "third power": lambda x: build.emit("power", (x, filled(3, x, x.shape))),
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


def test_squares_have_one_spelling() -> None:
    def squares(x: tf.Tensor) -> list[tf.Tensor]:
        return [x**2, tf.square(x), x * x, tf.pow(x, 2.0)]

    graph = apply(CANONICAL, graph_for(squares, floats(3))).graph
    assert shown(graph) == [
        "graph(%1: f32[3]):",
        "%2 = multiply(%1, %1) : f32[3]",
        "return %2, %2, %2, %2",
    ]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (("LT", 6), "True"),
        (("GE", 0), "True"),
        (("GT", 5), "False"),
        (("NE", -1), "True"),
        (("EQ", 9), "False"),
    ],
)
def test_comparisons_that_sizes_decide(limits: tuple[str, int], expected: str) -> None:
    direction, value = limits
    other = build.constant(value, TensorType("i32", (4, 6)))
    result = canonical(lambda _: build.compare(iota(), other, direction))
    assert body(result)[0] == f"%2 = constant() {expected} : i1[]"


@pytest.mark.parametrize(("direction", "value"), [("LT", 5), ("GE", 1), ("EQ", 3)])
def test_comparisons_that_sizes_do_not_decide(direction: str, value: int) -> None:
    other = build.constant(value, TensorType("i32", (4, 6)))
    assert not canonical(lambda _: build.compare(iota(), other, direction)).rewrites


def test_a_sum_that_could_overflow_has_no_range() -> None:
    type_ = TensorType("i8", (100,))
    count = build.emit("iota", (), {"iota_dimension": 0}, type=type_)
    total = build.add(count, build.constant(100, type_))
    assert not canonical(lambda _: build.compare(total, count, "GT"), type_).rewrites


@pytest.mark.parametrize(
    ("narrow", "wide", "expected"),
    [
        ("f32", "f64", True),
        ("bf16", "f32", True),
        ("bf16", "f16", False),
        ("f16", "bf16", False),
        ("f64", "f32", False),
        ("i32", "i64", True),
        ("ui8", "i16", True),
        ("ui8", "i8", False),
        ("i8", "ui64", False),
        ("i32", "f64", True),
        ("i32", "f32", False),
        ("i16", "f16", False),
        ("ui8", "bf16", True),
        ("f32", "complex<f32>", False),
        ("i1", "i32", False),
        ("f8E5M2", "f16", False),
    ],
)
def test_which_conversions_lose_nothing(narrow: str, wide: str, expected: bool) -> None:
    assert is_widening(narrow, wide) is expected


# --- products -----------------------------------------------------------------------------------


def test_transposes_are_folded_into_products() -> None:
    def products(a: tf.Tensor, b: tf.Tensor) -> list[tf.Tensor]:
        return [tf.transpose(a) @ tf.transpose(b), tf.einsum("ki,jk->ij", a, b)]

    result = apply(CANONICAL, graph_for(products, floats(5, 4), floats(3, 5)))
    assert shown(result.graph) == [
        "graph(%1: f32[5,4], %2: f32[3,5]):",
        "%3 = dot_general(%1, %2) contract [0]x[1] : f32[4,3]",
        "return %3, %3",
    ]


def test_a_transpose_that_orders_the_result_is_kept() -> None:
    x, y = build.region_parameters([TensorType("f32", (2, 3, 4)), TensorType("f32", (4, 5))])
    turned = transpose(x, (1, 0, 2))
    product = build.emit("dot_general", (turned, y), dot((), (), (2,), (0,)))
    assert not apply(CANONICAL, Graph((x, y), (product,))).rewrites


# --- order --------------------------------------------------------------------------------------


def sort(direction: str, *dtypes: str, stable: bool = True) -> Callable[..., Node]:
    return with_region("sort", comparator(direction, *dtypes), dimension=1, is_stable=stable)


def first(x: Node, start: int = 0) -> Node:
    return slice_of(x, (0, start), (4, start + 3), (1, 1))


def test_top_k_is_recognised() -> None:
    result = apply(CANONICAL, graph_for(lambda x: tf.math.top_k(x, 3), floats(4, 6)))
    assert shown(result.graph) == [
        "graph(%1: f32[4,6]):",
        "%2 = top_k(%1) k=3 : f32[4,3], i32[4,3]",
        "return %2.0, %2.1",
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


# --- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32])
def test_no_bit_changes(dtype: tf.DType) -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
        turned = tf.transpose(tf.reshape(x, [2, 2, 6]), [2, 0, 1])
        return [
            x**2 - 0,
            (y * 1) ** 1,
            tf.negative(-x),
            tf.transpose(turned, [1, 0, 2])[:, 1:][:, ::2],
            tf.cast(tf.cast(y, tf.float64), dtype),
            *tf.math.top_k(x, 3),
        ]

    values = np.nan_to_num(X, nan=3, posinf=9, neginf=-9) if dtype.is_integer else X
    given = tf.cast(values, dtype)
    assert_same_bits(CANONICAL, function, given, given + 1)


def test_a_thousand_nodes_take_few_passes() -> None:
    x = build.region_parameters([MATRIX])[0]
    y = x
    for _ in range(250):
        y = build.reshape(build.reshape(build.emit("tanh", (y,)), (24,)), (4, 6))
        y = build.emit("power", (y, filled(2, y, y.shape)))
    result = apply(CANONICAL, Graph((x,), (y,)))
    assert set(rules(result)) == {"reshape_twice", "small_power"}
