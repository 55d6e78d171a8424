"""Loops and branches as people write them, under a limit: the same numbers, and a proved peak."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import compiled, gradients
from tests.split.loops import cell, python_loop, written
from tests.split.test_branches import one_of_three, one_of_two, other_kernel
from tf_memsafe.executable import Executable

STEPS, SIZE, COUNT = 60, 40, 200
STATE = 4 * SIZE**2

Function = Callable[..., Any]


def normal(*shape: int) -> tf.Tensor:
    return tf.constant(np.random.default_rng(len(shape)).normal(size=shape) / 8, tf.float32)


def numbers() -> list[tf.Tensor]:
    """A number for each step, and weights: nothing but the steps' states is large."""
    return [normal(STEPS), normal(SIZE, SIZE)]


def points() -> list[tf.Tensor]:
    return [normal(COUNT, 3), normal(COUNT, 4)]


def outputs(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return tf.scan(lambda h, row: cell(h, row, w), rows, tf.zeros_like(w))


def assert_within(
    function: Function, arguments: Sequence[tf.Tensor], limit: int, runs: list[Executable]
) -> None:
    """Asserts that the function does not fit, and gives the same numbers in a program that does."""
    plain = compiled(function)
    expected = tf.nest.flatten(plain(*arguments))
    assert tf_memsafe.explain(plain, *arguments).peak_before > limit
    with tf_memsafe.memory_limit(limit):
        found = tf.nest.flatten(plain(*arguments))
    assert runs[-1].peak <= limit
    for value, wanted in zip(found, expected, strict=True):
        # f32: 60 steps follow each other, and sums over steps are in another order.
        scale = float(np.max(np.abs(wanted)))
        np.testing.assert_allclose(value, wanted, rtol=0, atol=1e-5 * scale)


# --- gradients of loops: the states of 60 steps take 60, the limit is far below -------------------


def scan_last(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return tf.sin(outputs(rows, w)[-1])


def scan_all(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return tf.sin(outputs(rows, w))


def foldl(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return tf.foldl(lambda h, row: cell(h, row, w), rows, tf.zeros_like(w))


def foldr(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return tf.foldr(lambda h, row: cell(h, row, w), rows, tf.zeros_like(w))


def map_fn(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return tf.map_fn(lambda row: tf.tanh(tf.tanh(w * row) @ w), rows)


def while_loop(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    body = lambda i, h: (i + 1, cell(h, rows[i], w))  # noqa: E731
    start = (0, tf.zeros_like(w))
    return tf.while_loop(lambda i, _: i < STEPS, body, start, maximum_iterations=STEPS)[1]


def tensor_arrays(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(written(rows, w) ** 2, 0)


def recompute_grad(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    step = tf.recompute_grad(lambda h, row: cell(tf.tanh(h @ w), row, w))
    return tf.foldl(step, rows, tf.zeros_like(w))


def cond_in_a_loop(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    def step(h: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
        return tf.cond(row > 0, lambda: cell(h, row, w), lambda: tf.sin(h @ w) + row)

    return tf.foldl(step, rows, tf.zeros_like(w))


def layers(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return tf.sin(outputs(outputs(rows, w), w)[-1])


def language_model(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """A recurrent layer, a dense layer on all its outputs and a cross entropy."""
    logits = tf.reshape(outputs(rows, w), [-1, SIZE]) @ w
    labels = tf.range(STEPS * SIZE) % SIZE
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


QUICK = (scan_last, scan_all, map_fn, cond_in_a_loop)
LONG = (
    foldl,
    foldr,
    while_loop,
    python_loop,
    tensor_arrays,
    recompute_grad,
    layers,
    language_model,
)


@pytest.mark.parametrize(
    "function",
    [*QUICK, *(pytest.param(function, marks=pytest.mark.slow) for function in LONG)],
    ids=lambda f: f.__name__,
)
def test_the_gradient_of_a_loop(function: Function, rewritten_runs: list[Executable]) -> None:
    assert_within(gradients(function), numbers(), 40 * STATE, rewritten_runs)


@pytest.mark.slow
def test_two_gradients_of_one_loop(rewritten_runs: list[Executable]) -> None:
    def both(rows: tf.Tensor, w: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(w)
            value = foldl(rows, w)
            first, second = tf.reduce_sum(value), tf.reduce_sum(value**2)
        return [tape.gradient(first, w), tape.gradient(second, w)]

    assert_within(both, numbers(), 40 * STATE, rewritten_runs)


@pytest.mark.slow
def test_a_gradient_of_a_gradient(rewritten_runs: list[Executable]) -> None:
    def curvature(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as outer:
            outer.watch(w)
            _, _, gradient = gradients(foldl)(rows, w)
            size = tf.reduce_sum(gradient**2)
        return outer.gradient(size, w)

    assert_within(curvature, numbers(), 60 * STATE, rewritten_runs)


# --- bodies and branches that are cut -------------------------------------------------------------

MATRIX = 4 * COUNT**2


def steps_of_kernels(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.foldl(lambda u, _: other_kernel(x, u) / 100, tf.range(4), v)


@pytest.mark.parametrize("function", [one_of_two, one_of_three, steps_of_kernels])
def test_the_body_is_cut(function: Function, rewritten_runs: list[Executable]) -> None:
    assert_within(function, points(), MATRIX // 2, rewritten_runs)


@pytest.mark.parametrize(
    "function",
    [one_of_two, pytest.param(one_of_three, marks=pytest.mark.slow), steps_of_kernels],
)
def test_so_is_its_gradient(function: Function, rewritten_runs: list[Executable]) -> None:
    assert_within(gradients(function), points(), MATRIX // 2, rewritten_runs)


# --- what a report says ---------------------------------------------------------------------------


def test_a_report_says_what_is_run_again() -> None:
    report = tf_memsafe.explain(gradients(foldl), *numbers(), memory_limit=40 * STATE)
    (again,) = report.recomputed
    assert again.trips == STEPS
    assert again.kept[0] < STEPS <= again.again
    assert again.source is not None
    assert again.source.file == __file__
    assert f"a loop of {STEPS} steps at {again.source} keeps its state of" in " ".join(
        str(report).split()
    )


UNTIL = "return tf.while_loop(small, step, (0, x), maximum_iterations=STEPS)[1]"


def test_a_loop_that_data_ends_is_named() -> None:
    def until(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        small = lambda _, v: tf.reduce_sum(v) < 3  # noqa: E731
        step = lambda i, v: (i + 1, tf.tanh(v @ w) + x)  # noqa: E731
        return tf.while_loop(small, step, (0, x), maximum_iterations=STEPS)[1]

    weights = normal(SIZE, SIZE)
    report = tf_memsafe.explain(gradients(until), weights, weights, memory_limit=40 * STATE)
    assert not report.fits
    assert any(str(blocker.tensor).endswith(UNTIL) for blocker in report.blockers)
    for blocker in report.blockers:
        assert blocker.tensor.shape == (STEPS, SIZE, SIZE)
        assert blocker.reason.endswith("how many steps the loop takes is not known before it runs")
