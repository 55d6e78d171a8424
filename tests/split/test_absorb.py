"""What stacks are made of, and what is made of them, goes into the loops, entry by entry."""

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
from tf_memsafe.hlo.order import topological
from tf_memsafe.split.absorb import absorb
from tf_memsafe.split.normal import normal_loops

SIZE = 4
ROWS, SQUARE = floats(STEPS, SIZE, SIZE), floats(SIZE, SIZE)
STACK = STEPS * SIZE * SIZE

Function = Callable[..., Any]


def absorbed(function: Function) -> tuple[Graph, Graph]:
    graph = graph_for(function, ROWS, SQUARE)
    return graph, normal_loops(absorb(normal_loops(graph)))


def largest_outside(graph: Graph) -> int:
    """The elements of the largest value that is computed outside of loops."""
    given = ("parameter", "constant", "get_tuple_element", "while", "broadcast_in_dim")
    nodes = (node for node in topological(graph.outputs) if node.name not in given)
    return max((result.size for node in nodes for result in node.results), default=0)


# --- what a loop reads --------------------------------------------------------------------------


def transformed(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    scaled = tf.exp(rows) * w[:, :1] + 1
    return tf.foldl(lambda h, row: cell(h, row, w), scaled, w)


def projected(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return tf.foldl(lambda h, row: cell(h, row, w), rows @ w, w)


def padded(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    after = tf.pad(rows[2:], [[1, 1], [0, 0], [0, 0]], constant_values=0.5)
    return tf.foldl(lambda h, row: cell(h, row, w), after, w)


def joined(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return tf.foldl(lambda h, row: cell(h, row, w), tf.concat([w[None], -rows], 0), w)


def reflected(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """To reflect nothing at the ends of an axis is to join it with what has no elements."""
    after = tf.pad(rows, [[0, 0], [1, 1], [0, 0]], "REFLECT")[:, 1:-1]
    return tf.foldl(lambda h, row: cell(h, row, w), after, w)


@pytest.mark.parametrize("function", [transformed, projected, padded, joined, reflected])
def test_an_entry_is_made_in_the_step_that_reads_it(function: Function) -> None:
    graph, changed = absorbed(function)
    assert largest_outside(changed) < STACK <= largest_outside(graph)
    assert_same_numbers([changed], graph, 1e-6)


def ordered(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """The order of all rows is needed whole; a sort has two results, the places are one of them."""
    places = tf.cast(tf.argsort(rows[:, 0], 0), rows.dtype) / STEPS
    return tf.foldl(lambda h, row: cell(h, row, w), tf.exp(places)[:, None] * w, w)


def test_one_of_several_results_is_sliced_where_they_exist_whole() -> None:
    graph, changed = absorbed(ordered)
    assert_same_numbers([changed], graph, 1e-6)


def summed(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """What is reduced is larger than the result, and needed whole."""
    few = tf.reduce_sum(tf.sort(rows, 0), 2)
    return tf.foldl(lambda h, row: cell(h, row, w), few, w)


def accumulated(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """An entry needs the one before."""
    return tf.foldl(lambda h, row: cell(h, row, w), tf.cumsum(rows), w)


@pytest.mark.parametrize("function", [summed, accumulated])
def test_what_costs_more_than_it_saves_is_not(function: Function) -> None:
    normal = normal_loops(graph_for(function, ROWS, SQUARE))
    assert absorb(normal) is normal


# --- what is done with what a loop writes -------------------------------------------------------


def test_the_last_entry_alone_is_kept() -> None:
    graph, changed = absorbed(loops.last_output)
    (loop,) = whiles(changed)
    assert stack_shapes(loop) == [(1, SIZE, SIZE)]
    assert_same_numbers([changed], graph, 0)


def test_sums_and_what_is_smaller_are_made_in_the_loop() -> None:
    def smaller(rows: tf.Tensor, w: tf.Tensor) -> tuple[tf.Tensor, ...]:
        states = tf.sin(outputs(rows, w))
        each = tf.reduce_sum(states**2, [1, 2])
        return tf.reduce_max(states, [0, 2]), each / tf.reduce_sum(each)

    graph, changed = absorbed(smaller)
    (loop,) = whiles(changed)
    assert stack_shapes(loop) == []
    assert {result.shape for result in loop.results} >= {(SIZE,), (STEPS,)}
    assert_same_numbers([changed], graph, 1e-6)


def test_entries_before_the_loops_first_are_put_in_as_well() -> None:
    graph, changed = absorbed(lambda x, w: tf.reduce_max(loops.start_and_outputs(x, w), [0, 1]))
    (loop,) = whiles(changed)
    assert stack_shapes(loop) == []
    assert_same_numbers([changed], graph, 1e-6)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(loops.recurrent, id="the stack is a result"),
        pytest.param(lambda x, w: tf.sort(outputs(x, w), 0), id="it is needed whole"),
        pytest.param(lambda x, w: tf.sin(outputs(x, w)), id="what is made of it is as large"),
        pytest.param(lambda x, w: tf.cumsum(outputs(x, w)), id="the next entry needs the last"),
    ],
)
def test_a_stack_stays_where(function: Function) -> None:
    normal = normal_loops(graph_for(function, ROWS, SQUARE))
    assert absorb(normal) is normal


# --- gradients ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        loops.recurrent,
        loops.last_output,
        loops.some_outputs,
        loops.start_and_outputs,
        loops.batch_first,
        loops.norm_of_outputs,
        loops.classified,
        loops.mapped,
        loops.arrays,
    ],
    ids=lambda f: f.__name__,
)
def test_the_gradient_of_a_loss_over_outputs_uses_stacks_in_loops_alone(function: Function) -> None:
    graph = graph_of(function, "float64")
    changed = normal_loops(absorb(normal_loops(graph)))
    assert largest_outside(changed) < STACK
    assert_same_numbers([changed], graph, F64)
