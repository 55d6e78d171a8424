"""The plans of programs that people write: how many loops, over which axis, joined how."""

from __future__ import annotations

import tensorflow as tf

from tests.split.functions import (
    HEADS,
    attention,
    distances,
    gradient_of,
    kernel_times_vector,
    nearest,
    sgpr_gradient,
)
from tests.split.planning import THRESHOLD, floats, plan_for, sinks
from tf_memsafe.split.plan import make_plan, write_plan
from tf_memsafe.split.target import Target


def causal_attention(queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    scores = tf.matmul(queries, keys, transpose_b=True) / 4.0
    length = queries.shape[1]
    mask = tf.linalg.band_part(tf.ones([length, length]), -1, 0)
    return tf.nn.softmax(tf.where(mask > 0, scores, -1e9)) @ values


def test_nearest_neighbours_are_one_loop_over_queries() -> None:
    plan = plan_for(nearest, floats(500, 3), floats(2000, 3))
    (loop,) = plan.loops
    assert loop.steps == 500
    assert sinks(loop) == [((500, 10), 0), ((500, 10), 0)]
    assert not plan.blockers


def test_attention_is_one_loop() -> None:
    (loop,) = plan_for(attention, *HEADS).loops
    assert sinks(loop) == [((4, 500, 16), 1)]


def test_the_gradient_of_attention_is_one_loop_over_queries() -> None:
    (loop,) = plan_for(gradient_of(attention), *HEADS).loops
    assert sorted(sinks(loop), key=str) == [
        ((4, 500, 16), "combined"),
        ((4, 500, 16), "combined"),
        ((4, 500, 16), 1),
    ]


def test_a_causal_mask_is_made_in_the_chunk() -> None:
    plan = plan_for(gradient_of(causal_attention), *HEADS)
    (loop,) = plan.loops
    assert len(sinks(loop)) == 3
    largest = max(node.type.bytes for node in write_plan(plan, Target(10**9)).graph.outputs)
    assert largest == 4 * 500 * 16 * 4


def test_a_two_way_chamfer_distance_is_one_loop() -> None:
    def chamfer(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        apart = tf.reduce_sum(tf.abs(x[:, None] - y[None]), -1)
        return tf.reduce_mean(tf.reduce_min(apart, 0)) + tf.reduce_mean(tf.reduce_min(apart, 1))

    (loop,) = plan_for(chamfer, floats(500, 3), floats(400, 3)).loops
    assert sinks(loop) == [((400,), "combined"), ((500,), 0)]


def test_log_sum_exp_is_one_loop() -> None:
    def sinkhorn(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.reduce_logsumexp(-distances(x, y), 1)

    (loop,) = plan_for(sinkhorn, floats(600, 3), floats(500, 3)).loops
    assert {axis for _, axis in sinks(loop)} == {0}


def test_a_kernel_times_a_vector_and_its_gradients_are_one_loop() -> None:
    specs = floats(500, 3), floats(3), floats(500, 1)
    (forward,) = plan_for(kernel_times_vector, *specs).loops
    assert sinks(forward) == [((500, 1), 0)]
    (backward,) = plan_for(gradient_of(kernel_times_vector), *specs).loops
    assert {axis for _, axis in sinks(backward)} == {0, "combined"}


def test_sgpr_and_its_gradient_are_two_loops_over_the_data() -> None:
    plan = make_plan(sgpr_gradient(2000, 20), THRESHOLD)
    assert [(loop.level, loop.steps) for loop in plan.loops] == [(0, 2000), (1, 2000)]
    assert ((20, 20), "combined") in sinks(plan.loops[0])


def test_a_value_that_an_op_needs_whole_is_named_with_the_op() -> None:
    def cholesky(x: tf.Tensor) -> tf.Tensor:
        return tf.linalg.cholesky(tf.exp(-distances(x, x)) + tf.eye(500))

    plan = plan_for(cholesky, floats(500, 3))
    assert "cholesky" in {blocker.user.name for blocker in plan.blockers}


def test_a_program_without_large_values_has_no_loops() -> None:
    assert plan_for(tf.tanh, floats(100)).loops == ()
