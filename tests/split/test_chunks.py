"""How many steps of a loop one chunk covers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import tensorflow as tf

from tests.split.functions import (
    HEADS,
    attention,
    distances,
    gradient_of,
    kernel_times_vector,
    nearest,
)
from tests.split.planning import floats, graph_for, plan_for
from tf_memsafe.executable import compile_graph
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.order import topological, users
from tf_memsafe.split.liveness import is_stored
from tf_memsafe.split.plan import Plan, make_plan, with_chunks, write_plan
from tf_memsafe.split.sizes import chunk_sizes, even_chunk, preferred_chunk
from tf_memsafe.split.target import CPU, GPU, Device, Target

LARGE_HEADS = (floats(8, 4000, 64),) * 3
KERNEL = floats(8000, 3), floats(3), floats(8000, 1)

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[tf.TensorSpec, ...]]] = {
    "attention": (attention, LARGE_HEADS),
    "attention gradient": (gradient_of(attention), LARGE_HEADS),
    "kernel": (kernel_times_vector, KERNEL),
    "kernel gradient": (gradient_of(kernel_times_vector), KERNEL),
    "nearest": (nearest, (floats(20_000, 3), floats(300_000, 3))),
}


def plan_of(name: str) -> Plan:
    function, specs = PROGRAMS[name]
    return make_plan(graph_for(function, *specs), threshold=20_000_000)


def used_by(plan: Plan) -> dict[Node, list[Node]]:
    return users(topological(plan.graph.outputs))


def step_bytes(plan: Plan) -> int:
    """Bytes of the largest stored tensor of one step of the plan's one loop."""
    (loop,), its_users = plan.loops, used_by(plan)
    largest = max(node.type.bytes for node in loop.streamed if is_stored(node, its_users[node]))
    return largest // loop.steps


def chunk_bytes(plan: Plan, device: Device) -> int:
    """Bytes of that tensor in a preferred chunk."""
    return step_bytes(plan) * preferred_chunk(plan.loops[0], used_by(plan), device)


# --- preferred chunks ---


@pytest.mark.parametrize("name", ["attention", "kernel", "kernel gradient", "nearest"])
def test_the_largest_tensor_of_a_chunk_takes_4_to_16_mb_on_a_cpu(name: str) -> None:
    plan = plan_of(name)
    assert 4_000_000 - step_bytes(plan) < chunk_bytes(plan, CPU) <= 16_000_000


def test_chunks_are_small_where_each_reads_little_beside_them() -> None:
    kernel, heads = (chunk_bytes(plan_of(name), CPU) for name in ("kernel", "attention"))
    assert kernel <= 4_000_000
    assert heads > 15_000_000  # keys and values, 8 MB each


def test_a_chunk_is_twice_as_large_where_adding_its_sums_takes_long() -> None:
    """Two sums of [8, 4000, 64], whatever the chunk."""
    assert 31_000_000 < chunk_bytes(plan_of("attention gradient"), CPU) <= 32_000_000


@pytest.mark.parametrize("name", PROGRAMS)
def test_chunks_are_larger_on_a_gpu(name: str) -> None:
    plan = plan_of(name)
    assert chunk_bytes(plan, GPU) >= 2 * chunk_bytes(plan, CPU)
    on_cpu, on_gpu = (write_plan(plan, Target(10**12, device=device)) for device in (CPU, GPU))
    assert on_gpu.chunks > on_cpu.chunks


# --- even chunks, and what is left over ---


def test_a_divisor_near_the_chunk_is_preferred() -> None:
    assert even_chunk(20_000, 27) == 25
    assert even_chunk(1009, 100) == 92  # a prime: ten chunks and a rest of 89


@pytest.mark.parametrize("steps", [1, 2, 97, 120, 128, 1009, 5040])
def test_an_even_chunk_is_no_larger_and_not_much_smaller(steps: int) -> None:
    for wanted in range(1, steps + 1):
        chunk = even_chunk(steps, wanted)
        assert wanted / 2 <= chunk <= wanted
        assert even_chunk(steps, chunk) == chunk


@pytest.mark.parametrize(("chunk", "left_over"), [(125, 0), (100, 0), (92, 1)])
def test_what_is_left_over_is_computed_outside_the_loop(chunk: int, left_over: int) -> None:
    plan = plan_for(nearest, floats(1009 if left_over else 1000, 3), floats(2000, 3))
    split = with_chunks(plan, [chunk])
    (loop,) = plan.loops
    assert split.chunks == (chunk,)
    assert loop.trips(chunk) == loop.steps // chunk + left_over
    outside = topological(split.graph.outputs)
    assert [node.name for node in outside].count("while") == 1
    assert [node.name for node in outside].count("sort") == left_over


@pytest.mark.parametrize("steps", [2000, 1999])
def test_what_is_left_over_does_not_exist_while_the_loop_runs(steps: int) -> None:
    """XLA would compute it at any time: the loop has to tell where it begins."""

    def spread(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        found = distances(x, y)
        return tf.reduce_sum(tf.exp(found - tf.reduce_min(found, 1, keepdims=True)), 1)

    plan = make_plan(graph_for(spread, floats(steps, 3), floats(20_000, 3)), threshold=10_000_000)
    split = with_chunks(plan, [3])
    assert split.chunks == (3,)
    assert steps % 3
    assert compile_graph(split.graph).peak <= split.estimate + 1_000


# --- chunks under a limit ---


def test_chunk_sizes_shrink_to_single_steps() -> None:
    plan = plan_of("attention gradient")
    sizes = chunk_sizes(plan.loops, used_by(plan), CPU)
    assert sizes[-1] == (1,)
    assert len(sizes) < 20
    for (larger,), (smaller,) in pairwise(sizes):
        assert larger / 3 <= smaller < larger


def test_chunks_shrink_until_the_estimate_fits() -> None:
    plan = plan_for(attention, *HEADS)
    large, small = write_plan(plan, Target(10**9)), write_plan(plan, Target(800_000))
    assert small.chunks < large.chunks
    assert small.estimate <= 800_000 < large.estimate


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_larger_limit_never_gives_smaller_chunks(name: str) -> None:
    plan = plan_of(name)
    chunks: tuple[int, ...] = (1,)
    least, most = (write_plan(plan, Target(limit)).estimate for limit in (0, 10**12))
    for limit in range(least, most, (most - least) // 9):
        split = write_plan(plan, Target(limit))
        assert split.estimate <= limit
        assert split.chunks >= chunks
        chunks = split.chunks


def test_if_no_chunk_fits_they_are_single_steps() -> None:
    assert write_plan(plan_of("kernel"), Target(0)).chunks == (1,)
