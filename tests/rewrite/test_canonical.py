"""One spelling of each thing, exact to the last bit: arithmetic and conversions."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.rewrite.canonical_form import MATRIX, Make, body, canonical, iota
from tests.rewrite.rewriting import assert_same_bits, graph_for, rules, shown, special
from tests.split.planning import floats
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.canonical import CANONICAL
from tf_memsafe.rewrite.driver import apply
from tf_memsafe.rewrite.maths import filled, is_widening

EDGES = (0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45)
X = special(np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32), EDGES[:4])


def convert(*dtypes: str) -> Make:
    def make(x: Node) -> Node:
        for dtype in dtypes:
            x = build.convert(x, dtype)
        return x

    return make


def beside_ten(direction: str) -> Node:
    """How 0 to 5 compare with 10."""
    return build.compare(iota(), build.constant(10, TensorType("i32", (4, 6))), direction)


UNCHANGED: dict[str, Make] = {
    "widen and back": convert("f64", "f32"),
    "times one": lambda x: build.multiply(filled(1, x, x.shape), x),
    "by one": lambda x: build.emit("divide", (x, filled(1, x, x.shape))),
    "minus zero": lambda x: build.subtract(x, filled(0, x, x.shape)),
    "plus minus zero": lambda x: build.add(filled(-0.0, x, x.shape), x),
    "first power": lambda x: build.emit("power", (x, filled(1, x, x.shape))),
    "minus minus": lambda x: build.emit("negate", (build.emit("negate", (x,)),)),
    "chosen": lambda x: build.emit("select", (beside_ten("LT"), x, x)),
    "always chosen": lambda x: build.emit("select", (beside_ten("LT"), x, filled(0, x, x.shape))),
    "never chosen": lambda x: build.emit("select", (beside_ten("GE"), filled(0, x, x.shape), x)),
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_what_changes_nothing_is_dropped(name: str) -> None:
    result = canonical(UNCHANGED[name])
    assert result.graph.outputs == result.graph.parameters
    assert result.rewrites


KEPT: dict[str, Make] = {
    "narrow and back": convert("f16", "f32"),
    "to integers and back": convert("i32", "f32"),
    "minus minus zero": lambda x: build.subtract(x, filled(-0.0, x, x.shape)),
    "plus zero": lambda x: build.add(x, filled(0, x, x.shape)),  # -0.0 + 0.0 is 0.0
    "times zero": lambda x: build.multiply(x, filled(0, x, x.shape)),  # 0 * inf is NaN
    "third power": lambda x: build.emit("power", (x, filled(3, x, x.shape))),
    "a root": lambda x: build.emit("power", (x, filled(0.5, x, x.shape))),  # of -0.0, -inf
    "exp log": lambda x: build.emit("exponential", (build.emit("log", (x,)),)),
    "log exp": lambda x: build.emit("log", (build.emit("exponential", (x,)),)),
    "log(1 + x)": lambda x: build.emit("log", (build.add(x, filled(1, x, x.shape)),)),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_changes_something_is_kept(name: str) -> None:
    assert not canonical(KEPT[name]).rewrites


def test_nothing_is_added_to_integers() -> None:
    result = canonical(lambda x: build.add(x, filled(0, x, x.shape)), TensorType("i32", (4,)))
    assert result.graph.outputs == result.graph.parameters


def test_softmax_is_left_alone() -> None:
    graph = apply(CANONICAL, graph_for(tf.nn.softmax, floats(4, 6))).graph
    assert not apply(CANONICAL, graph).rewrites
    names = [line.partition("(")[0].partition(" = ")[2] for line in shown(graph)]
    assert [name for name in names if name not in ("constant", "broadcast_in_dim", "")] == [
        "reduce",
        "subtract",
        "exponential",
        "reduce",
        "divide",
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


def test_what_is_doubled_is_a_product() -> None:
    assert body(canonical(lambda x: build.add(x, x))) == [
        "%2 = constant() 2.0 : f32[]",
        "%3 = broadcast_in_dim(%2) broadcast_dimensions=[] : f32[4,6]",
        "%4 = multiply(%3, %1) : f32[4,6]",
    ]
    for dtype in ("i1", "complex<f32>"):  # 2 * inf is NaN, in one part of a complex number
        assert not canonical(lambda x: build.add(x, x), TensorType(dtype, (4,))).rewrites


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
    result = canonical(lambda _: build.compare(iota(), filled(value, iota(), (4, 6)), direction))
    assert body(result)[0] == f"%2 = constant() {expected} : i1[]"


@pytest.mark.parametrize(("direction", "value"), [("LT", 5), ("GE", 1), ("EQ", 3)])
def test_comparisons_that_sizes_do_not_decide(direction: str, value: int) -> None:
    other = filled(value, iota(), (4, 6))
    assert not canonical(lambda _: build.compare(iota(), other, direction)).rewrites


def test_a_sum_that_could_overflow_has_no_range() -> None:
    type_ = TensorType("i8", (100,))
    count = build.emit("iota", (), {"iota_dimension": 0}, type=type_)
    total = build.add(count, filled(100, count, (100,)))
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


# --- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32])
def test_no_bit_changes(dtype: tf.DType) -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
        turned = tf.transpose(tf.reshape(x, [2, 2, 6]), [2, 0, 1])
        return [
            x**2 - 0,
            (y * 1) ** 1,
            tf.negative(-x),
            x + x,
            tf.transpose(turned, [1, 0, 2])[:, 1:][:, ::2],
            tf.cast(tf.cast(y, tf.float64), dtype),
            tf.concat([x, y], 0)[3:6, 1:] - tf.tile(x[:1, 1:], [3, 1]),
            tf.reduce_sum(x[:, None] * tf.ones([1, 1, 6], dtype), 1),
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
