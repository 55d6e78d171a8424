"""What a loop is given whole, and could make for itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import compiled
from tests.split.planning import graph_for
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.order import topological
from tf_memsafe.split.sink import sink

COUNT = 300
SPECS = tf.TensorSpec([COUNT, 3], tf.float64), tf.TensorSpec([COUNT, 1], tf.float64)
LIMIT = 200_000
"""Bytes: the kernel matrix takes 720 kB."""


def kernel(x: tf.Tensor) -> tf.Tensor:
    return tf.exp(-tf.reduce_sum((x[:, None] - x[None]) ** 2, -1))


def conjugate_gradients(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Solves (K + I) v = y, with K made before the loop, as one would write it."""
    matrix = kernel(x)

    def step(count: Any, v: Any, rest: Any, along: Any, size: Any) -> Any:
        times = matrix @ along + along
        length = size / tf.reduce_sum(along * times)
        v, rest = v + length * along, rest - length * times
        new = tf.reduce_sum(rest**2)
        return count + 1, v, rest, rest + new / size * along, new

    def goes_on(count: Any, v: Any, rest: Any, along: Any, size: Any) -> Any:
        return (count < 200) & (size > 1e-18)

    start = (0, tf.zeros_like(y), y, y, tf.reduce_sum(y**2))
    return tf.while_loop(goes_on, step, start)[1]


def a_matrix_that_changes(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    def step(count: Any, matrix: Any, v: Any) -> Any:
        return count + 1, 0.5 * matrix, matrix @ v

    return tf.while_loop(lambda count, *_: count < 3, step, (0, kernel(x), y))[2]


def a_matrix_that_is_factored(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    factor = tf.linalg.cholesky(kernel(x) + tf.linalg.diag(tf.ones_like(x[:, 0])))

    def step(count: Any, v: Any) -> Any:
        return count + 1, factor @ v

    return tf.while_loop(lambda count, _: count < 3, step, (0, y))[1]


def a_matrix_that_is_an_argument(matrix: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    def step(count: Any, v: Any) -> Any:
        return count + 1, matrix @ v

    return tf.while_loop(lambda count, _: count < 3, step, (0, y))[1]


def given(graph: Graph) -> list[Node]:
    """What the program's one loop is given: its state, and what it captures."""
    (loop,) = (node for node in topological(graph.outputs) if node.name == "while")
    return [*loop.operands, *(c for region in loop.regions for c in region.captures)]


def test_a_matrix_is_made_in_the_loop_that_multiplies_by_it() -> None:
    graph = graph_for(conjugate_gradients, *SPECS)
    assert max(value.type.bytes for value in given(graph)) == 8 * COUNT**2
    assert max(value.type.bytes for value in given(sink(graph))) == 8 * COUNT * 3


@pytest.mark.parametrize("function", [a_matrix_that_changes, a_matrix_that_is_factored])
def test_what_cannot_be_made_in_chunks_stays_outside(function: Callable[..., Any]) -> None:
    graph = graph_for(function, *SPECS)
    assert sink(graph) == graph


def test_an_argument_stays_outside() -> None:
    specs = tf.TensorSpec([COUNT, COUNT], tf.float64), SPECS[1]
    graph = graph_for(a_matrix_that_is_an_argument, *specs)
    assert sink(graph) == graph


def test_conjugate_gradients_keep_to_a_limit() -> None:
    random = np.random.default_rng(0)
    x, y = (tf.constant(random.normal(size=spec.shape)) for spec in SPECS)
    function = compiled(conjugate_gradients)
    report = tf_memsafe.explain(function, x, y, memory_limit=LIMIT)
    assert report.peak_before > 8 * COUNT**2
    assert report.peak_after <= LIMIT
    expected = np.linalg.solve(kernel(x).numpy() + np.eye(COUNT), y)
    with tf_memsafe.memory_limit(LIMIT):
        # The loop ends at a residual of 1e-9.
        np.testing.assert_allclose(function(x, y), expected, atol=1e-8)


def test_the_matrix_is_used_after_the_loop_too() -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return kernel(x) @ conjugate_gradients(x, y)

    random = np.random.default_rng(0)
    x, y = (tf.constant(random.normal(size=spec.shape)) for spec in SPECS)
    traced = compiled(function)
    expected = traced(x, y)
    with tf_memsafe.memory_limit(LIMIT):
        np.testing.assert_allclose(traced(x, y), expected, atol=1e-7)
