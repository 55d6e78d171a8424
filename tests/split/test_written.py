"""What a program takes in time once its loops are written into it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.split.functions import gradient_of
from tests.split.planning import floats, graph_for
from tests.split.test_stored import SMALL_CACHE
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.ops.ordering import COMPARISON_FLOPS
from tf_memsafe.rewrite.options import get_optimizer_options
from tf_memsafe.rewrite.pipeline import rewrite
from tf_memsafe.split.cheapest import best_cut
from tf_memsafe.split.cost import cost
from tf_memsafe.split.target import CPU, Target
from tf_memsafe.split.written import written_cost

POINTS = floats(500, 30), floats(700, 30)


def summed_differences(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Two axes that a loop can go over, and neither is enough for small limits."""
    return tf.reduce_sum(tf.abs(x[:, None] - y[None]), (0, 1))


def laplace_times_vector(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    """All differences are needed for its gradient."""
    return tf.exp(-tf.reduce_sum(tf.abs(x[:, None] - x[None]), -1)) @ v


def repeated_product(times: int) -> Graph:
    def compute(x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(
            lambda _: True, lambda y: (tf.tanh(x @ y),), (x,), maximum_iterations=times
        )[0]

    return graph_for(compute, floats(300, 300))


def test_without_loops_it_is_the_cost_of_the_graph_and_of_starting_kernels() -> None:
    graph = graph_for(tf.matmul, floats(50, 40), floats(40, 30))
    assert written_cost(graph, CPU) == cost(graph) + CPU.launch


def test_a_loop_costs_what_its_steps_do() -> None:
    ten, twenty = (written_cost(repeated_product(times), CPU) for times in (10, 20))
    assert ten > 10 * 2 * 300**3 // CPU.product_speedup
    assert twenty == pytest.approx(2 * ten, rel=1e-3)


def test_of_what_a_step_takes_slices_of_only_those_are_read() -> None:
    """Ten rows of x, a thousand times: all of x once, and not a thousand times."""

    def compute(x: tf.Tensor) -> tf.Tensor:
        def add(step: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return step + 1, total + tf.slice(x, (step * 10, 0), (10, 1000))

        start = (tf.constant(0), tf.zeros((10, 1000)))
        return tf.while_loop(lambda step, _: step < 1000, add, start)[1]

    found = written_cost(graph_for(compute, floats(10_000, 1000)), CPU)
    kernels = found // (1000 * CPU.launch)
    work_and_reads = found - kernels * 1000 * CPU.launch
    assert kernels <= 4
    assert work_and_reads < 6 * 10_000 * 1000 * 4


def test_what_a_sort_compares_counts() -> None:
    """It has a region, like a loop, and says itself what its comparisons take."""
    graph = graph_for(tf.sort, floats(300, 300))
    assert written_cost(graph, CPU) >= cost(graph) > 300 * 300 * COMPARISON_FLOPS


def test_a_conditional_costs_what_its_longest_branch_does() -> None:
    def compute(x: tf.Tensor) -> tf.Tensor:
        return tf.cond(x[0, 0] > 0, lambda: x @ x, lambda: x @ x @ x)

    once = written_cost(graph_for(lambda x: x @ x, floats(300, 300)), CPU)
    assert 2 * once <= written_cost(graph_for(compute, floats(300, 300)), CPU) < 3 * once


@pytest.mark.parametrize(
    ("function", "specs"),
    [
        (summed_differences, POINTS),
        (gradient_of(laplace_times_vector), (floats(2000, 3), floats(2000, 1))),
    ],
)
def test_a_larger_limit_is_never_slower_where_loops_are_cut_again(
    function: Callable[..., tf.Tensor], specs: tuple[tf.TensorSpec, ...]
) -> None:
    graph = rewrite(graph_for(function, *specs), get_optimizer_options()).graph
    least = best_cut(graph, Target(0, device=SMALL_CACHE))
    assert least is not None
    limits = np.geomspace(least.estimate, 20 * least.estimate, 20).astype(int)
    splits = [best_cut(graph, Target(int(limit), device=SMALL_CACHE)) for limit in limits]
    costs = [written_cost(s.graph, SMALL_CACHE) for s in splits if s is not None and s.inner]
    assert len(costs) > 1
    assert costs == sorted(costs, reverse=True)
