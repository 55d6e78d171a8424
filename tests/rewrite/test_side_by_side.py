"""Small groups are put side by side before they are reduced."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.running import graph_of, run
from tests.rewrite.rewriting import rules, shown
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.simplify import simplify
from tf_memsafe.rewrite import side_by_side
from tf_memsafe.rewrite.driver import Rewritten, apply
from tf_memsafe.rewrite.rule import Optimizer
from tf_memsafe.rewrite.side_by_side import groups_side_by_side

RULE = Optimizer("side_by_side", (groups_side_by_side,))
Function = Callable[..., tf.Tensor]


@pytest.fixture(autouse=True)
def _however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "FEWEST_ELEMENTS", 0)


def values(*shape: int, dtype: str = "f8", seed: int = 0) -> np.ndarray:
    """Of many ties, some special."""
    generator = np.random.default_rng(seed)
    found = generator.integers(-4, 5, shape).astype(dtype)
    if found.dtype.kind == "f":
        found[generator.random(shape) < 0.05] = np.inf
        found[generator.random(shape) < 0.05] = -0.0
    return found


def graph(function: Function, *arguments: np.ndarray) -> Graph:
    return simplify(graph_of(function, *arguments))


def rewritten(function: Function, *arguments: np.ndarray) -> Rewritten:
    return apply(RULE, graph(function, *arguments))


def nearest_of_groups(x: tf.Tensor, y: tf.Tensor, size: int = 4) -> tf.Tensor:
    """The least distance of each x to those of each group of y; what is over is in none."""
    distances = tf.abs(x[:, None] - y[None])
    whole = distances[:, : y.shape[0] // size * size]
    return tf.reduce_min(tf.reshape(whole, [x.shape[0], -1, size]), -1)


# --- what it makes ------------------------------------------------------------------------------


def test_fires() -> None:
    result = rewritten(nearest_of_groups, values(9), values(130))
    assert rules(result) == ["groups_side_by_side"]
    assert shown(result.graph) == [
        "graph(%1: f64[9], %2: f64[130]):",
        "%3 = broadcast_in_dim(%1) broadcast_dimensions=[0] : f64[9,4,32]",
        "%4 = slice(%2) start_indices=[0] limit_indices=[128] strides=[1] : f64[128]",
        "%5 = reshape(%4) : f64[32,4]",
        "%6 = transpose(%5) permutation=[1,0] : f64[4,32]",
        "%7 = broadcast_in_dim(%6) broadcast_dimensions=[1,2] : f64[9,4,32]",
        "%8 = subtract(%3, %7) : f64[9,4,32]",
        "%9 = abs(%8) : f64[9,4,32]",
        "%10 = constant() inf : f64[]",
        "%11 = reduce(%9, %10) dimensions=[1] : f64[9,32]",
        "return %11",
    ]


# --- what it leaves alone -----------------------------------------------------------------------


def largest_of(size: int) -> Function:
    """Of a tensor that is there."""
    return lambda x: tf.reduce_max(tf.reshape(2 * x, [-1, size]), -1)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (largest_of(8), [(800,)]),
        (lambda x, y: tf.reduce_max(tf.reshape(x @ y, [9, -1, 8]), -1), [(9, 3), (3, 400)]),
        (lambda x, y: nearest_of_groups(x, y, 64), [(9,), (6400,)]),
        (lambda x, y: nearest_of_groups(x, y, 8), [(9,), (80,)]),
        (lambda x, y: tf.reduce_min(tf.abs(x[:, None] - y[None]), -1), [(99,), (8,)]),
        (lambda x, y: tf.reduce_min(tf.abs(x[:, None] - y[None]), 0), [(9,), (800,)]),
    ],
    ids=["stored", "product", "large groups", "few groups", "no groups", "another axis"],
)
def test_left_alone(function: Function, shapes: list[tuple[int, ...]]) -> None:
    result = rewritten(function, *(values(*shape) for shape in shapes))
    assert not result.rewrites
    assert not result.refusals


def test_refuses_what_is_as_large() -> None:
    result = rewritten(nearest_of_groups, values(3), values(400))
    assert not result.rewrites
    (refusal,) = result.refusals
    assert refusal.reason == "1200 elements are few to be computed of 403"


def test_refuses_what_another_reads() -> None:
    def nearest_and_mean(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        distances = tf.abs(x[:, None] - y[None])
        nearest = tf.reduce_min(tf.reshape(distances, [x.shape[0], -1, 4]), -1)
        return nearest + tf.reduce_mean(distances, -1, keepdims=True)

    result = rewritten(nearest_and_mean, values(99), values(128))
    assert not result.rewrites
    (refusal,) = result.refusals
    assert refusal.reason == "it would be computed again for each of its users"


@pytest.mark.parametrize(("width", "fires"), [(5, True), (6, False)])
def test_refuses_many_coordinates(width: int, fires: bool) -> None:
    def nearest(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        distances = sum(tf.abs(x[:, i, None] - y[None, :, i]) for i in range(width))
        return tf.reduce_min(tf.reshape(distances, [x.shape[0], -1, 4]), -1)

    result = rewritten(nearest, values(99, width), values(128, width))
    assert bool(result.rewrites) == fires
    reason = "it is computed of 12 values, too many to be read in vectors"
    assert [refusal.reason for refusal in result.refusals] == [reason] * (not fires)


# --- numbers ------------------------------------------------------------------------------------


def assert_same(function: Function, *arguments: np.ndarray) -> None:
    plain = graph(function, *arguments)
    result = apply(RULE, plain)
    assert rules(result) == ["groups_side_by_side"]
    (got,), (expected,) = (run(each, list(arguments)) for each in (result.graph, plain))
    assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i4", "i8"])
@pytest.mark.parametrize("count", [128, 131])
def test_every_dtype_to_the_last_bit(dtype: str, count: int) -> None:
    assert_same(nearest_of_groups, values(9, dtype=dtype), values(count, dtype=dtype, seed=1))


def test_of_matrices_and_constants() -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        both = tf.where(x[:, :, None] > 0, 2 * y[None], tf.constant(1.0, y.dtype)) - 3
        return tf.reduce_max(tf.reshape(both, [*both.shape[:2], -1, 2]), -1)

    assert_same(function, values(5, 7), values(7, 64, seed=1))


def test_of_a_value_for_all_groups() -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        repeated = tf.broadcast_to(x[:, None], [x.shape[0], y.shape[0]])
        return tf.reduce_sum(tf.reshape(repeated * y, [x.shape[0], -1, 4]), -1)

    x, y = np.arange(9.0), np.arange(128.0)
    assert_same(function, x, y)
