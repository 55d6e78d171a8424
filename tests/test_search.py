"""A search takes at most three compiles, and the smallest limit that it states is true."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

import pytest
import tensorflow as tf
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.programs import COUNT, gradients, kernel
from tests.split.planning import graph_for
from tests.split.random_programs import RandomProgram, arguments, programs
from tf_memsafe import explain, search
from tf_memsafe.buffers import BufferAssignment
from tf_memsafe.executable import Executable
from tf_memsafe.hlo.node import Graph
from tf_memsafe.rewrite.driver import Rewritten
from tf_memsafe.rewrite.options import get_optimizer_options
from tf_memsafe.rewrite.pipeline import rewrite
from tf_memsafe.search import FAR, MOST_COMPILES, Search
from tf_memsafe.split.liveness import estimate_peak
from tf_memsafe.xla import XlaCompileError

F64 = tf.float64
SPECS = [tf.TensorSpec([COUNT, 3], F64), tf.TensorSpec([COUNT, 4], F64)]


def neighbours(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    distances = tf.reduce_sum(tf.abs(x[:, None] - x[None]), -1)
    return tf.math.top_k(-distances, 5).values @ tf.ones([5, 4], F64) + v


def softmax(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.nn.softmax(x @ tf.transpose(x)) @ v


def chain(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return (x @ tf.transpose(x)) @ v


def in_a_loop(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.foldl(lambda total, row: total + kernel(x + row, v), x[:4], tf.zeros_like(v))


FUNCTIONS = {
    **{f.__name__: f for f in (kernel, neighbours, softmax, chain, in_a_loop)},
    **{f"gradients of {f.__name__}": gradients(f) for f in (kernel, softmax)},
}


# --- with XLA: what a search comes to is what its error says ---


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_stated_smallest_limit_is_true(name: str) -> None:
    smallest = explain(FUNCTIONS[name], *SPECS, memory_limit=1).peak_after
    assert explain(FUNCTIONS[name], *SPECS, memory_limit=smallest).fits
    below = explain(FUNCTIONS[name], *SPECS, memory_limit=smallest - 1)
    assert not below.fits
    assert below.peak_after == smallest


# --- with any compiler whose figures are as far from the estimates as is allowed for ---


class Compiler:
    """Stands for XLA: a program needs its estimate times a factor, drawn once for each program."""

    def __init__(self, seed: int, possible: Sequence[float]) -> None:
        self.programs: list[Graph] = []
        self._random = random.Random(seed)
        self._possible = possible
        self._factors: dict[Graph, float] = {}

    def __call__(self, graph: Graph) -> Executable:
        self.programs.append(graph)
        factor = self._factors.setdefault(graph, self._random.choice(self._possible))
        peak = int(factor * estimate_peak(graph, fusing=False))
        return Executable("", None, (), BufferAssignment.estimated(peak))

    def search(self, graph: Graph, limit: int) -> int | None:
        """The peak that a search comes to; None if there is no program at all."""
        self.programs.clear()
        found = Search(graph, True, Rewritten, self).run(limit)
        assert len(self.programs) <= MOST_COMPILES
        return None if found is None else found.peak


def check(graph: Graph, compiler: Compiler, shares: list[float]) -> None:
    """Asserts that the limits that work are those from the stated smallest one on."""
    smallest = compiler.search(graph, 1)
    assert smallest is not None
    before = estimate_peak(graph)
    for limit in [smallest - 1, smallest, *(int(share * before) for share in shares)]:
        peak = compiler.search(graph, limit)
        assert peak is not None
        assert (peak <= limit) is (smallest <= limit)
        if peak > limit:
            assert peak == smallest


FACTORS = st.sampled_from([(1.0,), (0.8, 0.9, 1.0, 1.1, 1.3), (0.3, 1.0, 2.0, FAR)])
SHARES = st.lists(st.sampled_from([n / 20 for n in range(1, 41)]), min_size=3, max_size=6)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
SHARED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
"""All examples may share what is planned; a busy machine is not a failure."""


@pytest.fixture(autouse=True)
def planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning is pure, and most examples plan for the same few limits."""
    for name in ("best_cut", "checkpointed", "uncut"):
        monkeypatch.setattr(search, name, cache(getattr(search, name)))


@pytest.fixture(scope="module")
def graphs() -> dict[str, Graph]:
    return {
        name: rewrite(graph_for(function, *SPECS), get_optimizer_options()).graph
        for name, function in FUNCTIONS.items()
    }


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=20, phases=UNSHRUNK, suppress_health_check=SHARED)
@given(seed=st.integers(0, 10**6), factors=FACTORS, shares=SHARES)
def test_the_limits_that_work(
    name: str,
    graphs: dict[str, Graph],
    seed: int,
    factors: tuple[float, ...],
    shares: list[float],
) -> None:
    check(graphs[name], Compiler(seed, factors), shares)


def check_random(
    program: RandomProgram, seed: int, factors: tuple[float, ...], shares: list[float]
) -> None:
    specs = [tf.TensorSpec(array.shape, F64) for array in arguments(())]
    check(graph_for(program.compute, *specs), Compiler(seed, factors), shares)


@settings(max_examples=6, phases=UNSHRUNK, suppress_health_check=SHARED)
@given(programs(5, 20), st.integers(0, 10**6), FACTORS, SHARES)
def test_random_programs(
    program: RandomProgram, seed: int, factors: tuple[float, ...], shares: list[float]
) -> None:
    check_random(program, seed, factors, shares)


@pytest.mark.slow
@settings(max_examples=200, phases=UNSHRUNK, suppress_health_check=SHARED)
@given(programs(5, 40), st.integers(0, 10**6), FACTORS, SHARES)
def test_many_random_programs(
    program: RandomProgram, seed: int, factors: tuple[float, ...], shares: list[float]
) -> None:
    check_random(program, seed, factors, shares)


# --- programs that are not there ---


def test_a_program_that_xla_cannot_compile_is_passed_over(graphs: dict[str, Graph]) -> None:
    compiler = Compiler(0, (1.0,))

    def failing_at_first(graph: Graph) -> Executable:
        if not compiler.programs:
            compiler.programs.append(graph)
            raise XlaCompileError("XLA cannot compile it: no reason")
        return compiler(graph)

    search = Search(graphs["kernel"], False, Rewritten, failing_at_first)
    found = search.run(40_000)
    assert found is not None
    assert found.is_within(40_000)
    assert search.failures == ["XLA cannot compile it: no reason"]


def test_nothing_to_cut() -> None:
    compiler = Compiler(0, (1.0,))
    graph = graph_for(tf.sort, tf.TensorSpec([COUNT], F64))
    search = Search(graph, False, Rewritten, compiler)
    assert search.run(1) is None
    assert search.floor is None
    assert compiler.programs == []
