"""All optimizers together: their order, and the numbers of random programs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.hlo.running import graph_of, run
from tests.rewrite.distances import naive
from tests.rewrite.rewriting import graph_for
from tests.split.planning import floats
from tests.split.random_programs import RandomProgram, arguments, programs
from tf_memsafe import xla
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.reader import read
from tf_memsafe.hlo.verify import verify
from tf_memsafe.rewrite import distance_size, top_k
from tf_memsafe.rewrite.driver import Rewritten
from tf_memsafe.rewrite.pipeline import FINISHING, NAMES, OPTIMIZERS, finish, rewrite
from tf_memsafe.split.plan import make_plan, write_plan
from tf_memsafe.split.target import Target

ALL = dict.fromkeys(NAMES, True)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)


def fired(result: Rewritten) -> list[str]:
    return [each.optimizer for each in result.rewrites]


def largest(result: Rewritten) -> int:
    return max(type_.size for node in topological(result.graph.outputs) for type_ in node.results)


def test_names_are_unique_and_rules_are_too() -> None:
    for optimizers in (OPTIMIZERS, FINISHING):
        assert len({optimizer.name for optimizer in optimizers}) == len(optimizers)
        rules = [rule.name for optimizer in optimizers for rule in optimizer.rules]
        assert len(set(rules)) == len(rules)


def test_one_optimizer_opens_the_way_for_the_next() -> None:
    def function(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        products = tf.reduce_sum(x[:, None] * y[None], -1)
        return tf.linalg.diag_part((products @ v) @ tf.transpose(v))

    result = rewrite(graph_for(function, floats(50, 8), floats(40, 8), floats(40, 9)), ALL)
    assert set(fired(result)) == {"canonical", "diagonal", "contraction", "chain"}
    assert largest(result) <= 50 * 9


def test_what_is_switched_off_is_not_tried() -> None:
    graph = graph_for(naive, floats(50, 8), floats(40, 8))
    assert "distance" in fired(rewrite(graph, ALL))
    without = rewrite(graph, {**ALL, "distance": False})
    assert set(fired(without)) == {"canonical"}
    assert not without.refusals


def check(program: RandomProgram, special: tuple[float, ...]) -> None:
    given_arguments = arguments(special)
    graph = graph_of(program.compute, *given_arguments)
    rewritten = rewrite(graph, ALL)
    result = finish(rewritten.graph, ALL).after(rewritten)
    verify(result.graph)
    assert [o.type for o in result.graph.outputs] == [o.type for o in graph.outputs]
    if set(fired(result)) <= {"canonical"}:
        return
    pairs = zip(run(result.graph, given_arguments), run(graph, given_arguments), strict=True)
    for got, expected in pairs:
        finite = expected[np.isfinite(expected)]
        scale = max(1.0, np.abs(finite).max(initial=0))
        # f64 rounds at 1e-16; a random program adds up to 20,000 terms and divides a few times.
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10 * scale)


@pytest.fixture
def every_dimension(monkeypatch: pytest.MonkeyPatch) -> None:
    """The points of random programs have 5 coordinates, and their arrays few elements."""
    monkeypatch.setattr(distance_size, "SMALLEST_DIMENSION", 2)
    monkeypatch.setattr(top_k, "FEWEST_ELEMENTS", 0)


@pytest.mark.usefixtures("every_dimension")
@settings(max_examples=100, phases=UNSHRUNK, suppress_health_check=list(HealthCheck), deadline=None)
@given(programs(5, 25), st.sampled_from([(), (math.nan,)]))
def test_a_rewritten_program_computes_the_same(
    program: RandomProgram, special: tuple[float, ...]
) -> None:
    check(program, special)


@pytest.mark.slow
@pytest.mark.apart
@pytest.mark.usefixtures("every_dimension")
@settings(
    max_examples=1200, phases=UNSHRUNK, suppress_health_check=list(HealthCheck), deadline=None
)
@given(programs(10, 60), st.sampled_from([(), (math.nan,)]))
def test_a_long_rewritten_program_computes_the_same(
    program: RandomProgram, special: tuple[float, ...]
) -> None:
    check(program, special)


# --- loops and branches of the user's ------------------------------------------------------------


def powers(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    """K v three times, K made anew in each step, as conjugate gradients written naively do."""
    return tf.while_loop(
        lambda step, _: step < 3,
        lambda step, v: (step + 1, tf.linalg.matvec(tf.exp(-naive(x, x)), v) / 9),
        (0, v),
    )[1]


def batch_by_batch(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    """Distances of the points of each batch to five that v holds the coordinates of."""
    near = tf.reshape(v[:40], (5, 8))
    return tf.map_fn(lambda batch: naive(batch, near), tf.reshape(x, (5, -1, 8)))


def one_way_or_the_other(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.cond(v[0] > 100, lambda: naive(x, x), lambda: x @ tf.transpose(x))


@pytest.mark.parametrize("function", [powers, batch_by_batch, one_way_or_the_other])
def test_optimizers_go_into_loops_and_branches(function: Callable[..., tf.Tensor]) -> None:
    generator = np.random.default_rng(0)
    given = [generator.normal(size=shape) for shape in ((50, 8), (50,))]
    graph = graph_of(function, *given)
    result = rewrite(graph, ALL)
    verify(result.graph)
    assert "distance" in fired(result)
    (got,), (expected,) = run(result.graph, given), run(graph, given)
    # Squared distances of about 16, in f64.
    np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-13)


def test_what_is_refused_in_a_loop_is_reported() -> None:
    types = [tf.TensorSpec(shape, tf.float64) for shape in ((50, 3), (50,))]
    refusals = rewrite(graph_for(powers, *types), ALL).refusals
    assert "in 3 dimensions the differences are faster" in {each.reason for each in refusals}


# --- once a program is cut -----------------------------------------------------------------------


def search(x: tf.Tensor) -> tf.Tensor:
    return tf.math.top_k(x, 3).values


def searched(rows: int) -> Graph:
    return rewrite(graph_for(search, tf.TensorSpec((rows, 2000), tf.float64)), ALL).graph


def test_finishing_fires_and_says_so_once() -> None:
    result = finish(searched(50), ALL)
    assert set(fired(result)) == {"top_k"}
    # That the maxima of maxima are not grouped again is not news.
    assert not result.refusals


def test_what_finishing_refuses_is_reported() -> None:
    def half(x: tf.Tensor) -> tf.Tensor:
        return tf.math.top_k(x, 900).values

    result = finish(rewrite(graph_for(half, floats(50, 2000)), ALL).graph, ALL)
    assert [each.reason for each in result.refusals] == [
        "900 groups are too large a part of 2000 elements"
    ]


@pytest.mark.parametrize("enabled", [{**ALL, "top_k": False}, ALL])
def test_finishing_can_be_switched_off_and_is_for_known_devices(enabled: dict[str, bool]) -> None:
    graph = searched(50)
    device = "GPU" if enabled["top_k"] else "CPU"
    result = finish(graph, enabled, device)
    assert result == Rewritten(graph)


def test_where_there_is_nothing_to_finish_the_graph_stays_the_same() -> None:
    graph = rewrite(graph_for(tf.sin, floats(50, 8)), ALL).graph
    assert finish(graph, ALL).graph is graph


def test_how_the_loops_of_a_plan_are_finished_is_not_reported() -> None:
    """No line of the user's belongs to them."""

    def laplace(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        return tf.exp(-tf.reduce_sum(tf.abs(x[:, None] - x[None]), -1)) @ v

    graph = rewrite(graph_for(laplace, floats(2000, 3), floats(2000, 1)), ALL).graph
    cut = write_plan(make_plan(graph, 1_000_000), Target(2_000_000)).graph
    result = finish(cut, ALL)
    assert [each.rule for each in result.rewrites] == ["written_sum"]
    (loop,) = (node for node in topological(result.graph.outputs) if node.name == "while")
    assert [each.name for each in loop.regions[1].captures].count("slice") == 3


def test_finishing_goes_into_the_loops_of_a_plan() -> None:
    def nearest(queries: tf.Tensor, points: tf.Tensor) -> tf.Tensor:
        distances = tf.reduce_sum((queries[:, None] - points[None]) ** 2, -1)
        return tf.math.top_k(-distances, 3)

    generator = np.random.default_rng(0)
    given = [generator.normal(size=(count, 5)).astype(np.float32) for count in (64, 3000)]
    graph = rewrite(graph_of(nearest, *given), ALL).graph
    cut = write_plan(make_plan(graph, 100_000), Target(150_000)).graph
    assert "top_k" not in {node.name for node in topological(cut.outputs)}
    result = finish(cut, ALL)
    assert "top_k_by_groups" in {each.rule for each in result.rewrites}
    values, indices = run(result.graph, given)
    expected_values, expected_indices = run(cut, given)
    np.testing.assert_array_equal(indices, expected_indices)
    # XLA may fuse the distances with what looks for the largest, and round them another way.
    np.testing.assert_allclose(values, expected_values, rtol=1e-6)


# --- GPflow -------------------------------------------------------------------------------------

KERNELS: dict[str, Callable[[], gpflow.kernels.Kernel]] = {
    "SquaredExponential": lambda: gpflow.kernels.SquaredExponential(lengthscales=[1.5] * 7),
    "Matern32": lambda: gpflow.kernels.Matern32(lengthscales=[1.5] * 7),
    "Exponential": gpflow.kernels.Exponential,
    "RationalQuadratic": gpflow.kernels.RationalQuadratic,
    "Periodic": lambda: gpflow.kernels.Periodic(gpflow.kernels.SquaredExponential()),
    "Linear": lambda: gpflow.kernels.Linear(variance=[1.5] * 7),
    "ArcCosine": gpflow.kernels.ArcCosine,
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_and_their_gradients(name: str) -> None:
    kernel = KERNELS[name]()

    def function(x: tf.Tensor, y: tf.Tensor) -> list[Any]:
        watched = [x, y]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            value = tf.reduce_sum(tf.sin(kernel(x, y))) + tf.reduce_sum(kernel(x, full_cov=False))
        return [value, *tape.gradient(value, watched)]

    generator = np.random.default_rng(0)
    points = [tf.constant(generator.normal(size=(count, 7))) for count in (50, 40)]
    compiled = tf.function(function, jit_compile=True)
    concrete = compiled.get_concrete_function(*points)
    graph = read(xla.hlo_module(concrete, [tf.TensorSpec(p.shape, p.dtype) for p in points]))
    values = {id(variable.handle): variable.value() for variable in concrete.graph.variables}
    captured = [values.get(id(tensor), tensor) for tensor in concrete.captured_inputs]
    got = run(rewrite(graph, ALL).graph, [*points, *captured])
    for found, expected in zip(got, compiled(*points), strict=True):
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8 * scale)
