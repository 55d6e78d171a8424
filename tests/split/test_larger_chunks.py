"""Larger chunks that are cut again inside: where merging what chunks found takes long."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from tests.split.functions import distances, nearest
from tests.split.planning import floats, graph_for
from tf_memsafe.executable import compile_graph
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.order import topological
from tf_memsafe.rewrite.options import get_optimizer_options
from tf_memsafe.rewrite.pipeline import finish, rewrite
from tf_memsafe.split.cheapest import best_cut
from tf_memsafe.split.plan import SplitGraph, make_plan, with_chunks
from tf_memsafe.split.target import CPU, Target
from tf_memsafe.split.written import written_cost

MB = 10**6


def nearest_of(queries: int, points: int, width: int) -> Graph:
    graph = graph_for(nearest, floats(queries, width), floats(points, width))
    return rewrite(graph, get_optimizer_options()).graph


def steps(split: SplitGraph) -> list[tuple[int, int]]:
    return [(loop.steps, chunk) for loop, chunk in split.loops if loop.steps > chunk]


def best(graph: Graph, limit: int) -> SplitGraph:
    split = best_cut(graph, Target(limit))
    assert split is not None
    assert split.estimate <= limit
    return split


def test_chunks_that_a_limit_keeps_small_are_cut_along_the_other_axis_as_well() -> None:
    split = best(nearest_of(2000, 1_000_000, 100), 500 * MB)
    assert steps(split) == [(1_000_000, 40_000), (2000, 250)]


def test_it_takes_less_time_than_smaller_chunks() -> None:
    graph = nearest_of(2000, 1_000_000, 100)
    split = best(graph, 500 * MB)
    smaller = (with_chunks(split.plan, [chunk]) for chunk in (20_000, 12_500, 8000, 5000))
    fitting = next(each for each in smaller if each.estimate <= 500 * MB)
    assert written_cost(split.graph, CPU) < written_cost(fitting.graph, CPU)


@pytest.mark.parametrize("width", [100, 784])
def test_few_merges_are_left_alone(width: int) -> None:
    """Chunks twice as large would not save a tenth of the time."""
    split = best(nearest_of(2000, 60_000, width), 500 * MB)
    assert len(steps(split)) == 1


def test_sums_are_left_alone() -> None:
    """To add a chunk's part takes little, so small chunks are as good as large ones."""

    def summed(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.sqrt(distances(x, y)), 0)

    graph = graph_for(summed, floats(2000, 10), floats(200_000, 10))
    split = best(rewrite(graph, get_optimizer_options()).graph, 30 * MB)
    assert len(steps(split)) == 1


def test_numbers_do_not_change() -> None:
    """Whole numbers: distances are exact, and many are equal."""
    small = {"chunk_bytes": 100_000, "least_chunk_bytes": 100_000, "cache_bytes": 20_000}
    device = replace(CPU, **small, launch=100)
    graph = nearest_of(210, 3000, 20)
    split = best_cut(graph, Target(700_000, device=device))
    assert split is not None
    assert [axis for axis, _ in steps(split)][-2:] == [3000, 210]
    generator = np.random.default_rng(0)
    shapes = [(210, 20), (3000, 20)]
    given = [tf.constant(generator.integers(-2, 3, shape).astype("f4")) for shape in shapes]
    expected = compile_graph(graph)(given)
    found = compile_graph(finish(split.graph, get_optimizer_options()).graph)(given)
    for each, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(each, other)


def test_a_single_chunk_takes_no_slice_of_what_it_needs_all_of() -> None:
    plan = make_plan(nearest_of(2000, 60_000, 100), 100 * MB)
    whole = with_chunks(plan, [loop.steps for loop in plan.loops])
    assert all(node.name != "dynamic_slice" for node in topological(whole.graph.outputs))
