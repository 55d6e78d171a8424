"""Random programs, cut at random sizes: same numbers as uncut."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.hlo.running import graph_of, run
from tests.split.random_programs import RandomProgram, arguments, programs
from tf_memsafe.hlo.simplify import simplify
from tf_memsafe.hlo.verify import verify
from tf_memsafe.rewrite.options import get_optimizer_options
from tf_memsafe.rewrite.pipeline import rewrite
from tf_memsafe.split.plan import make_plan, with_chunks

RELATIVE = 1e-11
"""f64 rounds at 1e-16; a random program adds up to 20,000 terms and divides a few times."""

SPECIAL = st.sampled_from([(), (math.nan,), (math.inf,), (-math.inf, math.nan)])


def check(program: RandomProgram, threshold: int, chunk: int, special: tuple[float, ...]) -> int:
    """Cuts the program, compares it with itself uncut, and returns how many loops there were."""
    given_arguments = arguments(special)
    graph = graph_of(program.compute, *given_arguments)
    rewritten = rewrite(simplify(graph), get_optimizer_options()).graph
    plan = make_plan(rewritten, threshold)
    split = with_chunks(plan, [min(chunk, loop.steps) for loop in plan.loops])
    verify(split.graph)
    if plan.loops:
        pairs = zip(run(split.graph, given_arguments), run(graph, given_arguments), strict=True)
        for got, expected in pairs:
            finite = expected[np.isfinite(expected)]
            scale = max(1.0, np.abs(finite).max(initial=0))
            np.testing.assert_allclose(got, expected, rtol=RELATIVE, atol=RELATIVE * scale)
    return len(plan.loops)


# Each example compiles twice: shrinking a failure would take longer than reading it.
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)


@pytest.mark.parametrize("threshold", [200, 600, 2000, 8000])
@settings(max_examples=50, phases=UNSHRUNK)
@given(programs(5, 25), st.integers(1, 7), SPECIAL)
def test_a_cut_program_computes_the_same(
    threshold: int, program: RandomProgram, chunk: int, special: tuple[float, ...]
) -> None:
    check(program, threshold, chunk, special)


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [200, 600, 2000, 8000])
@settings(max_examples=500, phases=UNSHRUNK)
@given(programs(10, 60), st.integers(1, 11), SPECIAL)
def test_a_long_cut_program_computes_the_same(
    threshold: int, program: RandomProgram, chunk: int, special: tuple[float, ...]
) -> None:
    check(program, threshold, chunk, special)
