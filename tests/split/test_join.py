"""Loops that go through the same steps in the same order are one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tests.split import loops
from tests.split.loops import STEPS, cell, outputs, stack_shapes, whiles
from tests.split.planning import floats, graph_for
from tests.split.test_segments import F64, assert_same_numbers, graph_of
from tf_memsafe.hlo.node import Graph
from tf_memsafe.split.join import join_loops
from tf_memsafe.split.normal import normal_loops

SIZE = 4


def joined(graph: Graph) -> Graph:
    return normal_loops(join_loops(normal_loops(graph)))


def test_the_layers_of_a_network_are_one_loop() -> None:
    graph = graph_for(loops.layers, floats(STEPS, SIZE, SIZE), floats(SIZE, SIZE))
    (loop,) = whiles(joined(graph))
    assert stack_shapes(loop) == [(STEPS, SIZE, SIZE)]  # the last layer's outputs
    assert_same_numbers([joined(graph)], graph, 1e-6)


def test_so_are_their_gradients() -> None:
    graph = graph_of(loops.layers, "float64")
    _, backward = whiles(joined(graph))
    assert stack_shapes(backward) == [(STEPS, SIZE, SIZE)]  # the gradient to the rows
    assert_same_numbers([joined(graph)], graph, F64)


def backwards(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """The second layer begins at the end of the first."""
    return outputs(outputs(rows, w), w, reverse=True)[0]


def normalized(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """The second layer needs all of the first."""
    first = outputs(rows, w)
    return outputs(first - tf.reduce_mean(first, 0), w)[-1]


def started(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """The second layer begins with the last state of the first."""
    first = outputs(rows, w)
    return tf.foldl(lambda h, row: cell(h, row, w), first, first[-1])


def shorter(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return outputs(outputs(rows, w)[1:], w)[-1]


@pytest.mark.parametrize("function", [backwards, normalized, started, shorter])
def test_other_layers_are_not(function: Callable[..., Any]) -> None:
    graph = graph_for(function, floats(STEPS, SIZE, SIZE), floats(SIZE, SIZE))
    normal = normal_loops(graph)
    assert len(list(whiles(normal))) == 2
    assert join_loops(normal) is normal
