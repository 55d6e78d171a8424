"""A branch computes what it needs of an earlier one on the same predicate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tests.programs import gradients
from tests.split.planning import floats, graph_for
from tests.split.test_segments import assert_same_numbers
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.simplify import simplify
from tf_memsafe.split.branches import recompute_branches, without_unused_results
from tf_memsafe.split.checkpoint import checkpoint_loops
from tf_memsafe.split.liveness import estimate_peak

COUNT = 60
SPECS = floats(COUNT, 3), floats(COUNT, 4)
MATRIX = (COUNT, COUNT)

Function = Callable[..., Any]


def kernel(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.exp(-tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)) @ v


def other_kernel(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.sqrt(1 + tf.reduce_sum(tf.abs(x[:, None] - x[None]), -1)) @ v


def one_of_two(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.cond(v[0, 0] > 0, lambda: kernel(x, v), lambda: other_kernel(x, v))


def one_of_three(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    branches = [lambda: kernel(x, v), lambda: other_kernel(x, v), lambda: 2 * v]
    return tf.switch_case(tf.cast(v[0, 0], tf.int32), branches)


def branches(graph: Graph) -> list[Node]:
    return [node for node in topological(graph.outputs) if node.name in ("if", "case")]


def graph_of(function: Function) -> Graph:
    return simplify(graph_for(gradients(function), *SPECS))


@pytest.mark.parametrize("function", [one_of_two, one_of_three])
def test_the_gradients_branch_computes_what_it_needs(function: Function) -> None:
    graph = graph_of(function)
    before, _ = branches(graph)
    assert any(result.shape[:2] == MATRIX for result in before.results)
    changed = recompute_branches(graph)
    forward, backward = branches(changed)
    assert [result.shape for result in forward.results] == [(COUNT, 4)]
    assert all(capture.shape[:2] != MATRIX for capture in backward.dependencies)
    assert estimate_peak(changed) < estimate_peak(graph)
    assert_same_numbers([changed], graph, 1e-5)


def test_a_third_branch_computes_what_the_second_made_of_the_first() -> None:
    def second_order(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = tf.reduce_sum(one_of_two(x, v))
        return tf.reduce_sum(tape.gradient(value, x) ** 2)

    graph = graph_of(second_order)
    changed = recompute_branches(graph)
    assert len(branches(changed)) >= 3
    for node in branches(changed):
        assert all(capture.shape[:2] != MATRIX for capture in node.dependencies)
    assert_same_numbers([changed], graph, 1e-4)


def used_outside(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    flag = v[0, 0] > 0
    matrix = tf.cond(flag, lambda: x @ tf.transpose(x), lambda: tf.ones([COUNT, COUNT]))
    return tf.cond(flag, lambda: matrix @ v, lambda: v), tf.sin(matrix)


def other_predicate(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    matrix = tf.cond(v[0, 0] > 0, lambda: x @ tf.transpose(x), lambda: tf.ones([COUNT, COUNT]))
    return tf.cond(v[0, 1] > 0, lambda: matrix @ v, lambda: v)


def random(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    flag = v[0, 0] > 0
    matrix = tf.cond(flag, lambda: tf.random.uniform(MATRIX), lambda: tf.ones(MATRIX))
    return tf.cond(flag, lambda: matrix @ v, lambda: v)


@pytest.mark.parametrize("function", [used_outside, other_predicate, random])
def test_a_result_is_kept_that_others_need_or_that_is_random(function: Function) -> None:
    graph = simplify(graph_for(function, *SPECS))
    assert recompute_branches(graph) is graph


def test_results_that_nobody_uses_are_not_returned() -> None:
    def first_of_three(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        step = lambda u, _: tf.cond(  # noqa: E731
            u[0, 0] > 0, lambda: (u * 2, u, v), lambda: (u + 1, v, u)
        )[0]
        return tf.foldl(step, tf.range(3), v) + x[0, 0]

    graph = graph_for(first_of_three, *SPECS)
    (loop,) = (node for node in topological(graph.outputs) if node.name == "while")
    body = loop.regions[1]
    inside = Graph(body.parameters, body.results)
    (branch,) = branches(without_unused_results(inside))
    assert len(branch.results) == 1
    changed = without_unused_results(graph)
    assert_same_numbers([changed], graph, 0)


def test_branches_are_left_alone_where_there_is_room() -> None:
    graph = graph_of(one_of_two)
    assert checkpoint_loops(graph, estimate_peak(graph)).graph is graph
    smaller = checkpoint_loops(graph, estimate_peak(graph) - 1)
    assert estimate_peak(smaller.graph) < estimate_peak(graph)
