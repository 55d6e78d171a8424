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
from tests.rewrite.rewriting import graph_for
from tests.split.planning import floats
from tests.split.random_programs import RandomProgram, arguments, programs
from tf_memsafe import xla
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.reader import read
from tf_memsafe.hlo.verify import verify
from tf_memsafe.rewrite import distance
from tf_memsafe.rewrite.driver import Rewritten
from tf_memsafe.rewrite.pipeline import OPTIMIZERS, rewrite

ALL = {optimizer.name: True for optimizer in OPTIMIZERS}
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)


def fired(result: Rewritten) -> list[str]:
    return [each.optimizer for each in result.rewrites]


def largest(result: Rewritten) -> int:
    return max(type_.size for node in topological(result.graph.outputs) for type_ in node.results)


def test_names_are_unique_and_rules_are_too() -> None:
    assert len(ALL) == len(OPTIMIZERS)
    rules = [rule.name for optimizer in OPTIMIZERS for rule in optimizer.rules]
    assert len(set(rules)) == len(rules)


def test_one_optimizer_opens_the_way_for_the_next() -> None:
    def function(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        products = tf.reduce_sum(x[:, None] * y[None], -1)
        return tf.linalg.diag_part((products @ v) @ tf.transpose(v))

    result = rewrite(graph_for(function, floats(50, 8), floats(40, 8), floats(40, 9)), ALL)
    assert set(fired(result)) == {"canonical", "diagonal", "contraction", "chain"}
    assert largest(result) <= 50 * 9


def test_what_is_switched_off_is_not_tried() -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum((x[:, None] - y[None]) ** 2, -1)

    graph = graph_for(function, floats(50, 8), floats(40, 8))
    assert "distance" in fired(rewrite(graph, ALL))
    without = rewrite(graph, {**ALL, "distance": False})
    assert set(fired(without)) == {"canonical"}
    assert not without.refusals


def check(program: RandomProgram, special: tuple[float, ...]) -> None:
    given_arguments = arguments(special)
    graph = graph_of(program.compute, *given_arguments)
    result = rewrite(graph, ALL)
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
    """The points of random programs have 5 coordinates."""
    monkeypatch.setattr(distance, "SMALLEST_DIMENSION", 2)


@pytest.mark.usefixtures("every_dimension")
@settings(max_examples=200, phases=UNSHRUNK, suppress_health_check=list(HealthCheck), deadline=None)
@given(programs(5, 25), st.sampled_from([(), (math.nan,)]))
def test_a_rewritten_program_computes_the_same(
    program: RandomProgram, special: tuple[float, ...]
) -> None:
    check(program, special)


@pytest.mark.slow
@pytest.mark.usefixtures("every_dimension")
@settings(
    max_examples=1200, phases=UNSHRUNK, suppress_health_check=list(HealthCheck), deadline=None
)
@given(programs(10, 60), st.sampled_from([(), (math.nan,)]))
def test_a_long_rewritten_program_computes_the_same(
    program: RandomProgram, special: tuple[float, ...]
) -> None:
    check(program, special)


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
