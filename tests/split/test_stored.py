"""What is stored for later loops, and what they compute again; what a larger limit changes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, Phase, given, settings

from tests.generated.drawing import programs
from tests.generated.program import RandomProgram
from tests.hlo.running import graph_of, run
from tests.split.functions import (
    HEADS,
    attention,
    distances,
    gradient_of,
    kernel_times_vector,
    sgpr_gradient,
)
from tests.split.planning import floats, graph_for, sinks
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.op import Cut
from tf_memsafe.hlo.simplify import simplify
from tf_memsafe.rewrite.options import get_optimizer_options
from tf_memsafe.rewrite.pipeline import rewrite
from tf_memsafe.split.cheapest import best_cut
from tf_memsafe.split.cost import cost
from tf_memsafe.split.liveness import estimate_peak
from tf_memsafe.split.plan import MOST_KEPT, Plan, SplitGraph, make_plan, make_plans, with_chunks
from tf_memsafe.split.target import CPU, Device, Target

SMALL_CACHE = replace(CPU, chunk_bytes=100_000, least_chunk_bytes=100_000, cache_bytes=100_000)
"""A device for which the small programs of these tests are large."""

SOLVED = ((500, 100_000), 1)

GRADIENTS = [
    ((500, 500), "combined"),
    ((500, 3), "combined"),
    ((500,), "combined"),
    ((100_000, 3), 0),
    ((100_000,), 0),
    ((), "combined"),
    ((100_000, 1), 0),
    ((100_000,), 0),
]
"""What SGPR's second loop computes: the gradients of the loss to Z, and what is left of those to
the lengthscales and variances, of the data's size."""


def kept(plan: Plan) -> list[Node]:
    """The values that one loop stores and another would otherwise have computed again."""
    counts = Counter(node for loop in plan.loops for node in loop.sinks)
    computed = {node for loop in plan.loops for node in loop.streamed}
    return [node for node in counts if node in computed]


def rising(graph: Graph, device: Device, count: int = 8) -> list[SplitGraph]:
    """The plans for limits from the smallest estimate there is to what the graph takes uncut."""
    least = best_cut(graph, Target(0, device=device))
    uncut = estimate_peak(graph)
    if least is None or least.estimate >= uncut:
        return []
    limits = np.geomspace(least.estimate, uncut, count, endpoint=False).astype(int)
    found = [best_cut(graph, Target(int(limit), device=device)) for limit in limits]
    assert all(
        split and split.estimate <= limit for split, limit in zip(found, limits, strict=True)
    )
    return [split for split in found if split is not None]


def assert_never_slower(splits: list[SplitGraph], device: Device) -> None:
    """Loops cut again inside are a last resort, and not priced."""
    prices = [cost(s.plan.graph, s.loops, device) for s in splits if not s.inner]
    assert prices == sorted(prices, reverse=True)


# --- a value that a later loop needs again ---


@pytest.fixture(scope="module")
def sgpr() -> Graph:
    """N = 100,000 and M = 500: A = L^-1 K(Z, X) takes 400 MB."""
    return rewrite(sgpr_gradient(100_000, 500), get_optimizer_options()).graph


def test_sgpr_keeps_what_it_solves_for_if_there_is_room(sgpr: Graph) -> None:
    roomy = best_cut(sgpr, Target(10**9))
    assert roomy is not None
    first, second = roomy.plan.loops
    (solved,) = [node for node in first.sinks if node.name == "triangular_solve"]
    assert solved.shape == (500, 100_000)
    assert first.sinks[solved].cut == Cut(1)
    assert solved in first.streamed  # the same loop sums its products
    assert solved not in second.computed
    assert [sinks(loop) for loop in roomy.plan.loops] == [
        [((500,), "combined"), ((500, 500), "combined"), ((500, 1), "combined"), SOLVED],
        GRADIENTS,
    ]


def test_sgpr_computes_it_again_if_there_is_not(sgpr: Graph) -> None:
    tight = best_cut(sgpr, Target(200_000_000))
    assert tight is not None
    first, second = tight.plan.loops
    (solved,) = [node for node in first.streamed if node.name == "triangular_solve"]
    assert solved in second.streamed
    assert [sinks(loop) for loop in tight.plan.loops] == [
        [((500,), "combined"), ((500, 500), "combined"), ((500, 1), "combined")],
        GRADIENTS,
    ]


def test_what_is_cheap_to_compute_is_not_kept(sgpr: Graph) -> None:
    """The 400 MB of K(Z, X) and of its parts are not worth a round trip to main memory."""
    plans = list(make_plans(sgpr, 100_000_000, CPU))
    assert [[node.name for node in kept(plan)] for plan in plans] == [[], ["triangular_solve"]]
    fast_products = replace(CPU, product_speedup=10**6)
    (plan,) = make_plans(sgpr, 100_000_000, fast_products)
    assert kept(plan) == []


def twice(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    """All of the matrix is needed before any of it can be divided."""
    matrix = tf.exp(-distances(x, x))
    return matrix / tf.reduce_sum(matrix) @ v


def test_a_kept_value_gives_the_same_numbers() -> None:
    arguments = [np.random.default_rng(0).normal(size=size) for size in ((50, 3), (50, 2))]
    graph = graph_of(twice, *arguments)
    again, stored = list(make_plans(graph, 8_000, CPU))[:2]
    assert (len(kept(again)), len(kept(stored))) == (0, 1)
    expected = run(graph, arguments)
    for plan in (again, stored):
        split = with_chunks(plan, [7] * len(plan.loops))
        for found, wanted in zip(run(split.graph, arguments), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-13)


def test_a_plan_can_be_told_what_to_keep() -> None:
    graph = graph_for(twice, floats(500, 3), floats(500, 2))
    first, _ = make_plan(graph, 100_000).loops
    for value in first.streamed:
        if value.shape == (500, 500):
            assert value in kept(make_plan(graph, 100_000, kept=[value]))


def test_what_is_kept_is_nested_and_bounded(sgpr: Graph) -> None:
    """The plans of a threshold do not depend on a limit: each keeps one value more."""
    no_traffic = replace(CPU, cache_bytes=10**12)
    found = [set(kept(plan)) for plan in make_plans(sgpr, 100_000_000, no_traffic)]
    assert 2 <= len(found) <= MOST_KEPT + 1
    assert found[0] == set()
    for fewer, more in pairwise(found):
        assert fewer < more


# --- a larger limit never gives a slower plan ---


FUNCTIONS = {
    "attention gradient": (gradient_of(attention), HEADS),
    "kernel gradient": (
        gradient_of(kernel_times_vector),
        (floats(500, 3), floats(3), floats(500, 1)),
    ),
    "twice": (twice, (floats(500, 3), floats(500, 2))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_larger_limit_is_never_slower(name: str) -> None:
    function, specs = FUNCTIONS[name]
    graph = rewrite(graph_for(function, *specs), get_optimizer_options()).graph
    splits = rising(graph, SMALL_CACHE, 12)
    assert splits
    assert_never_slower(splits, SMALL_CACHE)


def test_a_larger_limit_is_never_slower_for_sgpr(sgpr: Graph) -> None:
    splits = rising(sgpr, CPU, 12)
    assert_never_slower(splits, CPU)
    counts = [len(kept(split.plan)) for split in splits]
    assert counts[0] == 0 < counts[-1]


@settings(max_examples=15, phases=[Phase.generate], suppress_health_check=[*HealthCheck])
@given(programs(10, 30))
def test_a_larger_limit_is_never_slower_for_random_programs(program: RandomProgram) -> None:
    graph = simplify(graph_of(program.compute, *program.values()))
    rewritten = rewrite(graph, get_optimizer_options()).graph
    assert_never_slower(rising(rewritten, SMALL_CACHE), SMALL_CACHE)
