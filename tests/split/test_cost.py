"""What a plan takes in time: the order of plans, not seconds."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tests.split.functions import attention, gradient_of, kernel_times_vector
from tests.split.planning import floats, graph_for, plan_for
from tf_memsafe.split.arrange import LoopPlan
from tf_memsafe.split.cost import combining, cost, merging, plan_cost, work
from tf_memsafe.split.plan import make_plan
from tf_memsafe.split.target import CPU

KERNEL = floats(2000, 3), floats(3), floats(2000, 1)
HEADS = (floats(8, 2000, 64),) * 3


def test_larger_chunks_never_cost_more() -> None:
    plan = plan_for(kernel_times_vector, *KERNEL)
    costs = plan_cost(plan.graph, plan.loops)
    prices = [costs.of([chunk] * len(plan.loops)) for chunk in (1, 7, 50, 125, 1000, 2000)]
    assert prices == sorted(prices, reverse=True)
    assert prices[0] > prices[-1]


def test_what_each_chunk_costs_is_paid_for_each() -> None:
    (loop,) = (plan := plan_for(kernel_times_vector, *KERNEL)).loops
    costs = plan_cost(plan.graph, plan.loops)
    (each,) = costs.each_chunk
    assert costs.of([1]) - costs.of([loop.steps]) == (loop.steps - 1) * each
    assert each >= CPU.launch


def test_the_cost_of_a_plan_is_that_of_its_loops_and_chunks() -> None:
    plan = plan_for(gradient_of(attention), *HEADS)
    chunks = [50] * len(plan.loops)
    loops = list(zip(plan.loops, chunks, strict=True))
    assert cost(plan.graph, loops) == plan_cost(plan.graph, plan.loops).of(chunks)


def test_a_library_call_for_a_product_is_faster_than_a_fused_loop() -> None:
    (product,) = graph_for(tf.matmul, floats(500, 400), floats(400, 300)).outputs
    (sines,) = graph_for(tf.sin, floats(500, 300)).outputs
    assert work(product, CPU) == 2 * 500 * 400 * 300 // CPU.product_speedup
    assert work(sines, CPU) >= 500 * 300


def test_adding_to_a_sum_moves_it_in_each_chunk() -> None:
    """dK and dV of attention's gradient, each [8, 2000, 64]."""
    (loop,) = plan_for(gradient_of(attention), *HEADS).loops
    sums = [node for node, way in loop.sinks.items() if way.contraction is not None]
    assert sorted(node.type.bytes for node in sums) == [8 * 2000 * 64 * 4] * 2
    moved = combining(loop) - merging(loop)
    assert moved == 4 * sum(node.type.bytes for node in sums)


def test_a_loop_that_concatenates_combines_nothing() -> None:
    (loop,) = plan_for(kernel_times_vector, *KERNEL).loops
    assert combining(loop) == merging(loop) == 0


def test_a_matrix_of_which_rows_and_columns_are_needed_is_computed_twice() -> None:
    """Where the sums over its columns may exist whole they are added up instead."""
    graph = graph_for(rows_and_columns, floats(2000, 50))
    twice, once = (make_plan(graph, threshold).loops for threshold in (1000, 2_000_000))
    assert [exponentials(loops) for loops in (twice, once)] == [2, 1]
    costs = [plan_cost(graph, loops).fixed for loops in (twice, once)]
    (kernel,) = {node for loop in once for node in loop.streamed if node.name == "exponential"}
    assert costs[0] - costs[1] > work(kernel, CPU)


def rows_and_columns(x: tf.Tensor) -> tf.Tensor:
    kernel = tf.exp(tf.matmul(x, x, transpose_b=True))
    return tf.matmul(kernel, x) + tf.matmul(kernel, x + 1, transpose_a=True)


def exponentials(loops: Sequence[LoopPlan]) -> int:
    """How often the loops compute one."""
    return sum(node.name == "exponential" for loop in loops for node in loop.computations)
