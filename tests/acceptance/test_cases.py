"""The computations of shared/CASES.md: numbers at a small size, the peak at the reported size."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tf_memsafe
from tests.acceptance.cases import CASES, Case, floats
from tests.slow import slow_where

FITTING = [case for case in CASES if case.blocked is None]
BLOCKED = [case for case in CASES if case.blocked is not None]


TOLERANCES = {tf.float32: 1e-5, tf.float64: 1e-11}
"""Some 100 roundings: sums of at most 100 terms, in another order. Integers are the same."""


def identify(case: Case) -> str:
    return f"{case.number}-{case.function.__name__}"


def arguments(case: Case) -> list[tf.Tensor]:
    generator = np.random.default_rng(case.number)
    return [tf.constant(generator.normal(size=s.shape), s.dtype) for s in case.small]


def test_every_row_has_a_case() -> None:
    """Rows 19 and 20 have no size of their own: they are the last tests of this file."""
    assert {case.number for case in CASES} == set(range(1, 19))


@pytest.mark.parametrize("case", FITTING, ids=identify)
def test_the_reported_size_fits_the_limit(case: Case) -> None:
    report = tf_memsafe.explain(case.function, *case.reported, memory_limit=case.limit)
    assert report.fits
    assert report.peak_after <= report.memory_limit  # type: ignore[operator]


LONG = {1}
"""The cases whose numbers `make test-all` alone looks at: a sparse GP's are in other tests too."""


@pytest.mark.parametrize(
    "case", slow_where(lambda case: case.number in LONG, FITTING), ids=identify
)
def test_the_numbers_are_the_plain_functions(case: Case) -> None:
    given = arguments(case)
    plain = tf.function(case.function, jit_compile=True)
    expected = tf.nest.flatten(plain(*given))
    needed = tf_memsafe.explain(plain, *given).peak_before
    smallest = tf_memsafe.explain(plain, *given, memory_limit=1).peak_after
    with tf_memsafe.memory_limit(max(smallest, (needed + smallest) // 2)):
        got = tf.nest.flatten(plain(*given))
    for value, reference in zip(got, expected, strict=True):
        tolerance = TOLERANCES.get(value.dtype, 0)
        np.testing.assert_allclose(value, reference, rtol=2 * tolerance, atol=tolerance)


QUICK = {3, 4, 12}
"""The cases whose smallest limit `make test` looks for; `make test-all` looks for all."""


@pytest.mark.parametrize(
    "case", slow_where(lambda case: case.number not in QUICK, FITTING), ids=identify
)
def test_the_stated_smallest_limit_is_true(case: Case) -> None:
    smallest = tf_memsafe.explain(case.function, *case.small, memory_limit=1).peak_after
    assert tf_memsafe.explain(case.function, *case.small, memory_limit=smallest).fits
    assert not tf_memsafe.explain(case.function, *case.small, memory_limit=smallest - 1).fits


@pytest.mark.parametrize("case", BLOCKED, ids=identify)
def test_what_cannot_be_cut_is_named(case: Case) -> None:
    report = tf_memsafe.explain(case.function, *case.reported, memory_limit=case.limit)
    assert not report.fits
    assert any(case.blocked in blocker.reason for blocker in report.blockers)  # type: ignore[operator]
    assert all(blocker.tensor.source for blocker in report.blockers)
    files = {blocker.tensor.source.file for blocker in report.blockers if blocker.tensor.source}
    assert files == {case.function.__code__.co_filename}


def test_loops_one_after_the_other_compile() -> None:
    """Case 19."""

    @tf.function(jit_compile=True)
    def three_loops(x: tf.Tensor) -> tf.Tensor:
        for _ in range(3):
            _, x = tf.while_loop(lambda i, _: i < 4, lambda i, v: (i + 1, tf.sin(v) + 1), (0, x))
        return tf.reduce_sum(x[:, None] * x[None], 1)

    x = tf.random.stateless_normal([400], (1, 2))
    expected = three_loops(x)
    with tf_memsafe.memory_limit("100kB"):
        np.testing.assert_allclose(three_loops(x), expected, rtol=1e-5, atol=1e-4)


def test_a_gradient_outside_a_compiled_loop_fails_as_tensorflow_does() -> None:
    """Case 20: TensorFlow cannot keep a loop's states across the call, and says so."""

    @tf.function(jit_compile=True)
    def loop(x: tf.Tensor) -> tf.Tensor:
        body = lambda i, v: (i + 1, tf.sin(v) * 2.0)  # noqa: E731
        return tf.while_loop(lambda i, _: i < 4, body, (0, x), maximum_iterations=4)[1]

    x = tf.random.stateless_normal([500], (1, 2))
    for limit in (None, "1GB"):
        with tf_memsafe.memory_limit(limit), tf.GradientTape() as tape:
            tape.watch(x)
            with pytest.raises(tf.errors.UnimplementedError, match="TensorList"):
                loop(x)


def test_explaining_allocates_nothing_of_the_functions_size() -> None:
    """A terabyte-sized argument is a TensorSpec like any other."""
    report = tf_memsafe.explain(tf.reduce_sum, floats(500_000, 500_000))
    assert report.peak_before >= 10**12
