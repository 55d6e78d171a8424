"""Sums of what is computed for all pairs: written out term by term, where that is computed once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.rewrite.rewriting import both, reasons, rewritten, rules, shown, special
from tests.split.planning import floats
from tf_memsafe.rewrite import elements
from tf_memsafe.rewrite.target import TARGET

EPSILON = {"float32": 6e-8, "float64": 1.2e-16}


@pytest.fixture(autouse=True)
def _however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elements, "FEWEST_ELEMENTS", 0)


def manhattan(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.abs(x[:, None] - y[None]), -1)


def test_manhattan_distances() -> None:
    result = rewritten(TARGET, manhattan, floats(50, 2), floats(40, 2))
    assert rules(result) == ["written_sum"]
    assert shown(result.graph) == [
        "graph(%1: f32[50,2], %2: f32[40,2]):",
        "%3 = slice(%1) start_indices=[0,0] limit_indices=[50,1] strides=[1,1] : f32[50,1]",
        "%4 = reshape(%3) : f32[50]",
        "%5 = broadcast_in_dim(%4) broadcast_dimensions=[0] : f32[50,40]",
        "%6 = slice(%2) start_indices=[0,0] limit_indices=[40,1] strides=[1,1] : f32[40,1]",
        "%7 = reshape(%6) : f32[40]",
        "%8 = broadcast_in_dim(%7) broadcast_dimensions=[1] : f32[50,40]",
        "%9 = subtract(%5, %8) : f32[50,40]",
        "%10 = abs(%9) : f32[50,40]",
        "%11 = slice(%1) start_indices=[0,1] limit_indices=[50,2] strides=[1,1] : f32[50,1]",
        "%12 = reshape(%11) : f32[50]",
        "%13 = broadcast_in_dim(%12) broadcast_dimensions=[0] : f32[50,40]",
        "%14 = slice(%2) start_indices=[0,1] limit_indices=[40,2] strides=[1,1] : f32[40,1]",
        "%15 = reshape(%14) : f32[40]",
        "%16 = broadcast_in_dim(%15) broadcast_dimensions=[1] : f32[50,40]",
        "%17 = subtract(%13, %16) : f32[50,40]",
        "%18 = abs(%17) : f32[50,40]",
        "%19 = add(%10, %18) : f32[50,40]",
        "return %19",
    ]


# --- who uses it --------------------------------------------------------------------------------


def matern(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    r = manhattan(x, y)
    return (1 + r) * tf.exp(-r) @ tf.ones([40, 1])


def nearest(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    distances = manhattan(x, y)
    return tf.reduce_min(distances, -1), distances[:, 0]


def twice(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    weights = tf.exp(-manhattan(x, y))
    return weights @ tf.ones([40, 1]), tf.reduce_max(weights, 0)


def result_too(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    distances = manhattan(x, y)
    return distances, tf.reduce_max(distances, 0)


@pytest.mark.parametrize("function", [matern, nearest])
def test_what_one_user_alone_reads_whole(function: Callable[..., tf.Tensor]) -> None:
    assert "written_sum" in rules(rewritten(TARGET, function, floats(50, 3), floats(40, 3)))


@pytest.mark.parametrize("function", [twice, result_too])
def test_what_several_users_read_is_left(function: Callable[..., tf.Tensor]) -> None:
    result = rewritten(TARGET, function, floats(50, 3), floats(40, 3))
    assert reasons(result) == {
        "written_sum": "its terms would be computed again for each of its users"
    }


def test_many_terms_are_left() -> None:
    result = rewritten(TARGET, manhattan, floats(500, 129), floats(500, 129))
    assert reasons(result) == {"written_sum": "129 terms take long to compile"}


@pytest.mark.parametrize(
    ("function", "types"),
    [
        (lambda x: tf.reduce_sum(tf.exp(x), -1), [floats(50, 3)]),
        (lambda x: tf.reduce_sum(x, -1), [floats(50, 3)]),
        (lambda x, y: tf.reduce_max(tf.abs(x[:, None] - y), -1), [floats(50, 3), floats(40, 3)]),
        (lambda x, y: tf.reduce_sum(tf.abs(x[:, None] - y)), [floats(50, 3), floats(40, 3)]),
        (lambda x, y: tf.argmin(tf.abs(x[:, None] - y), -1), [floats(50, 3), floats(40, 3)]),
        (manhattan, [tf.TensorSpec((n, 3), tf.int32) for n in (50, 40)]),
        (manhattan, [floats(50, 1), floats(40, 1)]),
        (manhattan, [floats(0, 3), floats(40, 3)]),
    ],
)
def test_other_sums_are_left(
    function: Callable[..., tf.Tensor], types: list[tf.TensorSpec]
) -> None:
    result = rewritten(TARGET, function, *types)
    assert "written_sum" not in rules(result)
    assert not reasons(result)


def test_a_small_sum_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elements, "FEWEST_ELEMENTS", 50 * 40 * 3 + 1)
    assert not rules(rewritten(TARGET, manhattan, floats(50, 3), floats(40, 3)))


# --- numbers ------------------------------------------------------------------------------------


def weighted(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """With a constant, a select, and values that do not vary along some axes."""
    difference = x[:, None] - y[None]
    kept = tf.where(difference > 0.5, difference, tf.abs(x)[:, None])
    return tf.reduce_sum(2 * kept * tf.range(x.shape[1], dtype=x.dtype), -1)


def first_axis(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.abs(tf.transpose(x)[:, :, None] - tf.transpose(y)[:, None]), 0)


@pytest.mark.parametrize("dtype", EPSILON)
@pytest.mark.parametrize("terms", [2, 3, 17])
@pytest.mark.parametrize("function", [manhattan, weighted, first_axis])
def test_numbers(function: Callable[..., tf.Tensor], terms: int, dtype: str) -> None:
    generator = np.random.default_rng(0)
    x, y = (generator.normal(size=(n, terms)).astype(dtype) for n in (50, 41))
    ((got, plain),) = both(TARGET, function, x, y)
    # Each of the sums is rounded once, on either side.
    largest = np.abs(plain).max()
    np.testing.assert_allclose(got, plain, rtol=0, atol=2 * terms * EPSILON[dtype] * largest)


def test_nan_and_infinities_stay_where_they_were() -> None:
    generator = np.random.default_rng(0)
    x, y = (generator.normal(size=(n, 3)).astype(np.float32) for n in (50, 41))
    x, y = special(x, [np.nan, np.inf, -np.inf]), special(y, [np.inf])
    ((got, plain),) = both(TARGET, manhattan, x, y)
    np.testing.assert_allclose(got, plain, rtol=1e-6)
