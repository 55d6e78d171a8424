"""Programs whose large values are sliced, padded, joined or accumulated along the cut axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.running import graph_of, run
from tests.split.planning import sinks
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.simplify import simplify
from tf_memsafe.hlo.verify import verify
from tf_memsafe.rewrite.canonical import CANONICAL
from tf_memsafe.rewrite.driver import apply
from tf_memsafe.split.plan import Plan, make_plan, with_chunks

ROWS, COLUMNS = 60, 50
THRESHOLD = 2000
"""Bytes: a few rows of the matrices below, and less than a column."""

RELATIVE = 1e-11
"""f64 rounds at 1e-16, and the programs add up to 10,000 terms of one size."""

Program = Callable[[tf.Tensor, tf.Tensor], Any]


def matrix(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.sin(x[:, None] + y[None, :])


def check(program: Program, chunk: int = 7) -> Plan:
    """Asserts that the cut program gives the uncut one's numbers; its plan."""
    generator = np.random.default_rng(0)
    arguments = [generator.normal(size=ROWS), generator.normal(size=COLUMNS)]
    graph = simplify(graph_of(program, *arguments))
    plan = make_plan(graph, THRESHOLD)
    split = with_chunks(plan, [min(chunk, loop.steps) for loop in plan.loops])
    verify(split.graph)
    for got, expected in zip(run(split.graph, arguments), run(graph, arguments), strict=True):
        scale = np.abs(expected).max(initial=1)
        np.testing.assert_allclose(got, expected, rtol=RELATIVE, atol=RELATIVE * scale)
    return plan


def largest(plan: Plan, chunk: int = 7) -> int:
    """Bytes of the largest value outside the loops."""
    split = with_chunks(plan, [min(chunk, loop.steps) for loop in plan.loops])
    return max(node.type.bytes for node in topological(split.graph.outputs))


# --- one loop each, and nothing exists whole ---


def joined(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    rows = tf.concat([matrix(x, y), matrix(2 * x[:31], y)], 0)
    return tf.reduce_sum(tf.square(rows), 1)


def joined_and_summed(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.concat([matrix(x, y), matrix(x, 3 * y)], 0), 0)


def padded(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    rows = tf.pad(matrix(x, y), [[3, 2], [0, 0]], constant_values=1.5)
    return tf.reduce_sum(tf.exp(rows), 1)


def padded_all_around(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_max(tf.pad(matrix(x, y), [[3, 2], [1, 4]]), 1)


def some_rows(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.exp(matrix(x, y)[5:47]), 1)


def every_third_row(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.exp(matrix(x, y)[3:57:3]), 1)


def differences(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    rows = matrix(x, y)
    return tf.reduce_sum(tf.square(rows[1:] - rows[:-1]), 1)


def rolled(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.square(tf.roll(matrix(x, y), 11, 0)), 1)


def with_a_row_of_zeros(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    rows = tf.concat([tf.zeros([1, COLUMNS], x.dtype), tf.cumsum(matrix(x, y), 0)], 0)
    return tf.reduce_max(rows, 1)


def accumulated(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.square(tf.cumsum(matrix(x, y), 0)), 1)


def accumulated_before(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.square(tf.cumsum(matrix(x, y), 0, exclusive=True)), 1)


def accumulated_from_the_end(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.square(tf.cumsum(matrix(x, y), 0, reverse=True)), 1)


def accumulated_after(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    after = tf.math.cumprod(matrix(x, y), 0, exclusive=True, reverse=True)
    return tf.reduce_sum(tf.square(after), 1)


def accumulated_in_the_log(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_max(tf.math.cumulative_logsumexp(matrix(x, y), 0), 1)


def accumulated_twice(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_max(tf.cumsum(tf.exp(tf.cumsum(matrix(x, y), 0) / 99), 0), 1)


STREAMED = (
    joined,
    joined_and_summed,
    padded,
    padded_all_around,
    some_rows,
    every_third_row,
    differences,
    rolled,
    with_a_row_of_zeros,
    accumulated,
    accumulated_before,
    accumulated_from_the_end,
    accumulated_after,
    accumulated_in_the_log,
    accumulated_twice,
)


@pytest.mark.parametrize("program", STREAMED, ids=lambda program: program.__name__)
@pytest.mark.parametrize("chunk", [1, 7, 60])
def test_it_is_one_loop(program: Program, chunk: int) -> None:
    plan = check(program, chunk)
    assert len(plan.loops) == 1
    assert not plan.blockers
    if chunk < ROWS:
        assert largest(plan, chunk) <= THRESHOLD


def test_a_join_is_a_boundary() -> None:
    (loop,) = check(joined).loops
    assert loop.boundaries == (60,)
    assert sinks(loop) == [((91,), 0)]


def test_what_is_sliced_away_is_not_computed() -> None:
    (loop,) = check(some_rows).loops
    assert loop.steps == 42


@pytest.mark.parametrize("program", [accumulated_from_the_end, accumulated_after])
def test_sums_from_the_end_are_computed_backwards(program: Program) -> None:
    (loop,) = check(program).loops
    assert loop.backwards


# --- whole results, and gradients ---


def whole_join(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.concat([tf.exp(matrix(x, y)), matrix(2 * x, y)], 0)


def whole_sums(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.cumsum(matrix(x, y) @ tf.transpose(matrix(x, y)), 0)


def gradient(program: Program) -> Program:
    def gradients(x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            loss = tf.reduce_sum(tf.square(program(x, y)))
        return tape.gradient(loss, [x, y])

    gradients.__name__ = f"gradient of {program.__name__}"
    return gradients


@pytest.mark.parametrize(
    "program",
    [whole_join, whole_sums, *map(gradient, STREAMED[:-2])],
    ids=lambda program: program.__name__,
)
def test_the_numbers_are_those_of_the_uncut_program(program: Program) -> None:
    assert check(program).loops


def test_both_directions_in_one_chain_need_a_value_whole() -> None:
    def both(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        forth = tf.sort(tf.cumsum(matrix(x, y), 0), 1)  # sorted rows cannot be cut by columns
        return tf.reduce_max(tf.sort(tf.cumsum(forth, 0, reverse=True), 1), 1)

    plan = check(both)
    assert [loop.backwards for loop in plan.loops] == [False, True]
    assert [blocker.user.name for blocker in plan.blockers] == ["reduce_window"]


def test_rows_after_the_first_still_have_the_sum_of_all_before() -> None:
    def later(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.cumsum(matrix(x, y), 0)[10:], 1)

    check(later)


def test_top_k_takes_its_chunks_in_order() -> None:
    """A tie goes to the lower index, which a loop from the end would find last."""

    def ties(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, ...]:
        rows = tf.transpose(tf.cumsum(tf.round(matrix(x, y)), 0, reverse=True))
        return (*tf.math.top_k(rows, 5), tf.reduce_sum(rows, 0))

    check(ties)


SPECIAL = {
    "f": [-np.nan, np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0],
    "V": [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0],  # NumPy's kind of bf16
    "i": [-(2**31), 2**31 - 1, 0, 1],
    "u": [0, 255, 1],
}
"""By NumPy's kind of dtype, the lowest first: what is ordered in a way of its own, and often."""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("chunk", [1, 3, 7])
@pytest.mark.parametrize("mixed", [True, False])
def test_top_k_of_chunks_of_special_values(dtype: str, chunk: int, mixed: bool) -> None:
    type_ = tf.as_dtype(dtype)
    generator = np.random.default_rng(0)
    values = np.array(SPECIAL[np.dtype(type_.as_numpy_dtype).kind], type_.as_numpy_dtype)
    some = values if mixed else values[:1]
    x = some[generator.integers(len(some), size=(1, 70))]
    arguments = [x, np.ones_like(x, bool)]
    # What is cut is no argument, which would be there whole.
    graph = graph_of(lambda x, y: tf.math.top_k(tf.where(y, x, x[:, :1]), 5), *arguments)
    graph = apply(CANONICAL, simplify(graph)).graph
    (loop,) = (plan := make_plan(graph, x.nbytes // 2)).loops
    split = with_chunks(plan, [min(chunk, loop.steps)])
    assert loop.steps == 70
    for found, expected in zip(run(split.graph, arguments), run(graph, arguments), strict=True):
        assert found.tobytes() == expected.tobytes()
