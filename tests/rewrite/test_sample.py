"""Samples: read from arguments, past what is computed element by element, and from nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.rewrite.distances import exact, naive, points
from tests.rewrite.rewriting import both, graph_for, shown
from tests.split.planning import floats
from tf_memsafe.hlo.node import Graph
from tf_memsafe.rewrite.canonical import CANONICAL
from tf_memsafe.rewrite.distance import DISTANCE
from tf_memsafe.rewrite.driver import apply
from tf_memsafe.rewrite.sample import sampled


def sample_of(function: Callable[..., Any], *specs: tf.TensorSpec) -> list[str]:
    """The graph of 10 elements along the first axis of a function's result."""
    graph = apply(CANONICAL, graph_for(function, *specs)).graph
    (x,) = graph.outputs
    return shown(apply(CANONICAL, Graph(graph.parameters, (sampled(x, 0, 10),))).graph)


def test_a_sample_of_an_argument() -> None:
    assert sample_of(tf.identity, floats(75, 3)) == [
        "graph(%1: f32[75,3]):",
        "%2 = slice(%1) start_indices=[0,0] limit_indices=[70,3] strides=[7,1] : f32[10,3]",
        "return %2",
    ]


def test_a_sample_of_what_is_computed_element_by_element() -> None:
    assert sample_of(lambda x, scales: tf.exp(x / scales), floats(70, 3), floats(3)) == [
        "graph(%1: f32[70,3], %2: f32[3]):",
        "%3 = slice(%1) start_indices=[0,0] limit_indices=[70,3] strides=[7,1] : f32[10,3]",
        "%4 = broadcast_in_dim(%2) broadcast_dimensions=[1] : f32[10,3]",
        "%5 = divide(%3, %4) : f32[10,3]",
        "%6 = exponential(%5) : f32[10,3]",
        "return %6",
    ]


@pytest.mark.parametrize(
    "function", [lambda x: x @ tf.ones([3, 3]), lambda x: x / tf.reduce_sum(x, -1, keepdims=True)]
)
def test_no_sample_of_what_is_computed_otherwise(function: Callable[..., Any]) -> None:
    graph = apply(CANONICAL, graph_for(function, floats(70, 3))).graph
    assert sampled(graph.outputs[0], 0, 10) is graph.outputs[0]


def test_no_sample_of_few() -> None:
    graph = graph_for(tf.identity, floats(19, 3))
    assert sampled(graph.outputs[0], 0, 10) is graph.outputs[0]


def repeating(y: np.ndarray) -> np.ndarray:
    """Points in 15 places far apart, one after the other: a sample may have those of a few only."""
    return y + 1e4 * (np.arange(len(y)) % 15)[:, None].astype(y.dtype)


@pytest.mark.parametrize("order", [np.sort, repeating, lambda y: y[::-1] + 1e4])
def test_distances_do_not_depend_on_the_sample(order: Callable[..., Any]) -> None:
    x, y = points(20, 6, offset=0), points(3000, 6, offset=0)
    y = order(y)
    x = x + y[::150]
    ((got, _),) = both(DISTANCE, naive, x, y)
    expected = exact(x, y)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6 * expected.mean())


def test_a_sample_of_nan_and_inf() -> None:
    x, y = points(20, 6), points(3000, 6)
    y[::3] = np.nan  # the whole sample
    y[1::3, 0] = np.inf
    ((got, plain),) = both(DISTANCE, naive, x, y)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(plain))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(plain))
    np.testing.assert_allclose(got, plain, rtol=1e-5)
