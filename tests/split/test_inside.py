"""Loops and branches are cut with the memory that is left beside what lives outside them."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.split.planning import graph_for
from tests.split.test_branches import COUNT, SPECS, other_kernel
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.order import topological
from tf_memsafe.split.inside import Inside
from tf_memsafe.split.liveness import inside_peak, live_around


def in_a_branch(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    """A vector of 4 numbers for each of `COUNT` points lives beside the branch."""
    beside = tf.sort(v, 0)
    return tf.cond(v[0, 0] > 0, lambda: other_kernel(x, v), lambda: v) @ tf.transpose(beside)


class Recorder:
    """Stands for the planner: keeps what room each region is given, and cuts nothing."""

    def __init__(self) -> None:
        self.rooms: list[int] = []

    def __call__(self, graph: Graph, limit: int) -> Graph | None:
        given = sum(parameter.type.bytes for parameter in graph.parameters)
        self.rooms.append(limit - given)
        return None


def rooms(graph: Graph, limit: int) -> list[int]:
    recorder = Recorder()
    assert Inside(recorder, limit, fusing=True)(graph) == graph
    return recorder.rooms


def test_the_room_is_what_is_left_beside_what_is_live() -> None:
    graph = graph_for(in_a_branch, *SPECS)
    (branch,) = (node for node in topological(graph.outputs) if node.name == "if")
    around = live_around(graph)[branch]
    assert around >= 4 * COUNT * (3 + 4 + 4)  # both arguments, and what lives beside it
    limit = around + inside_peak(branch) - 1
    assert rooms(graph, limit) == [limit - around] * 2


def test_a_region_that_has_room_is_not_cut() -> None:
    graph = graph_for(in_a_branch, *SPECS)
    (branch,) = (node for node in topological(graph.outputs) if node.name == "if")
    assert rooms(graph, live_around(graph)[branch] + inside_peak(branch)) == []


@pytest.mark.parametrize("first", [2, 1])
def test_each_loop_has_the_room_that_it_has_alone(first: int) -> None:
    """Two loops, one after the other: the larger does not take from the smaller one's room."""

    def two_loops(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        for times in (first, 3 - first):
            wide = tf.concat([x] * times, 1)
            step = lambda u, _, wide=wide: other_kernel(wide, u) / 100  # noqa: E731
            v = tf.foldl(step, tf.range(3), v)
        return v

    graph = graph_for(two_loops, *SPECS)
    around = live_around(graph)
    limit = max(around.values()) + 1
    loops = [node for node in topological(graph.outputs) if node.name == "while"]
    wanted = [limit - around[loop] for loop in loops for _ in loop.regions]
    assert rooms(graph, limit) == wanted
