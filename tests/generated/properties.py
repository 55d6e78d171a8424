"""What holds for every program: cut in any way, under any limit, it computes the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any
from unittest import mock

import pytest
import tensorflow as tf
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import tf_memsafe
from tests.generated.program import RandomProgram
from tests.generated.rounding import assert_same
from tests.hlo.running import graph_of, run
from tests.programs import compiled
from tf_memsafe import xla
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.simplify import simplify
from tf_memsafe.hlo.verify import verify
from tf_memsafe.rewrite.options import get_optimizer_options
from tf_memsafe.rewrite.pipeline import NAMES, finish, rewrite
from tf_memsafe.split.plan import make_plan, with_chunks
from tf_memsafe.xla import ConcreteFunction


def examples(
    shard: int, count: int, check: Callable[..., None], *strategies: st.SearchStrategy[object]
) -> None:
    """Runs the check on so many examples, which are the same in every run of this shard."""

    @seed(shard)
    # A program takes a second to compile: to shrink a failure would take longer than to read it.
    @settings(max_examples=count, phases=[Phase.generate], suppress_health_check=[*HealthCheck])
    @given(st.tuples(*strategies))
    def run_one(drawn: tuple[object, ...]) -> None:
        check(*drawn)

    run_one()


def check_cut(program: RandomProgram, threshold: int, chunk: int) -> None:
    """Cuts the program wherever a value takes more than `threshold` bytes, in chunks of `chunk`."""
    graph = simplify(graph_of(program.compute, *program.values()))
    rewritten = rewrite(graph, get_optimizer_options())
    plan = make_plan(rewritten.graph, threshold)
    split = with_chunks(plan, [min(chunk, loop.steps) for loop in plan.loops])
    verify(split.graph)
    if plan.loops:
        _assert_computes_the_same(program, split.graph)


def check_rewritten(program: RandomProgram) -> None:
    """Applies every optimizer to the program uncut."""
    arguments, enabled = program.values(), dict.fromkeys(NAMES, True)
    graph = graph_of(program.compute, *arguments)
    rewritten = rewrite(graph, enabled)
    finished = finish(rewritten.graph, enabled)
    verify(finished.graph)
    assert [o.type for o in finished.graph.outputs] == [o.type for o in graph.outputs]
    if any(each.optimizer != "canonical" for each in rewritten.rewrites + finished.rewrites):
        _assert_computes_the_same(program, finished.graph)


def _assert_computes_the_same(program: RandomProgram, graph: Graph) -> None:
    arguments = program.values()
    found = [tf.convert_to_tensor(value) for value in run(graph, arguments)]
    assert_same(program, found, compiled(program.compute, autograph=False)(*arguments))


def check_limit(program: RandomProgram, share: float) -> None:
    """Holds the program to a limit between the least that works and what it takes as written.

    share: where between the two, from 0 to 1.
    """
    arguments, plain = program.values(), compiled(program.compute, autograph=False)
    expected = plain(*arguments)
    with compiling_once():
        least = tf_memsafe.explain(plain, *arguments, memory_limit=1)
        limit = least.peak_after + int(share * (least.peak_before - least.peak_after))
        report = tf_memsafe.explain(plain, *arguments, memory_limit=limit)
        assert report.problem is None
        assert not report.failures
        assert report.peak_after <= limit
        with tf_memsafe.memory_limit(limit):
            found = plain(*arguments)
    assert_same(program, found, expected)


def check_smallest_limit(program: RandomProgram) -> None:
    """The limit that the error states works, and one byte less does not."""
    arguments, plain = program.values(), compiled(program.compute, autograph=False)

    def error_under(limit: int) -> tf_memsafe.MemoryLimitError:
        with tf_memsafe.memory_limit(limit), pytest.raises(tf_memsafe.MemoryLimitError) as caught:
            plain(*arguments)
        return caught.value

    with compiling_once():
        smallest = error_under(1).smallest_peak
        assert smallest is not None
        assert f"{smallest:,} bytes" in error_under(smallest - 1).message
        with tf_memsafe.memory_limit(smallest):
            plain(*arguments)


@contextmanager
def compiling_once() -> Iterator[None]:
    """XLA compiles no program twice in the block: one limit after the other asks for the same."""
    with (
        mock.patch.object(xla, "stablehlo_function", _remembering(xla.stablehlo_function)),
        mock.patch.object(xla, "measure", _remembering(xla.measure)),
    ):
        yield


def _remembering(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, that keeps its results by its first argument."""
    known: dict[str | ConcreteFunction, Any] = {}

    @wraps(function)
    def call(program: str | ConcreteFunction, *specs: Sequence[tf.TensorSpec]) -> Any:
        if program not in known:
            known[program] = function(program, *specs)
        return known[program]

    return call
