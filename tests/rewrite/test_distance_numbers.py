"""What distances as matrix products come to: digits, the diagonal, NaN and inf."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.rewrite.distances import exact, naive, points
from tests.rewrite.rewriting import both
from tf_memsafe.rewrite.distance import DISTANCE


@pytest.mark.parametrize("dimension", [6, 16, 100])
@pytest.mark.parametrize("offset", [0, 1e4])
def test_a_common_offset_costs_no_digits(dimension: int, offset: float) -> None:
    x, y = (points(n, dimension, offset=offset) for n in (300, 200))
    ((got, _),) = both(DISTANCE, naive, x, y)
    np.testing.assert_allclose(got, exact(x, y), rtol=1e-5)


def test_nor_does_it_for_many_points() -> None:
    # A sum of 500,000 numbers around 1e4 has no digits left in f32 for a spread of 1.
    x, y = points(8, 6, offset=1e4), points(500_000, 6, offset=1e4)
    ((got, _),) = both(DISTANCE, naive, x, y)
    # Of 4 million pairs some are very close: their distances lose digits, as the rule says.
    expected = exact(x, y)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6 * expected.mean())


@pytest.mark.parametrize(("dtype", "rounding"), [("float32", 6e-8), ("float64", 1.1e-16)])
def test_points_are_at_no_distance_from_themselves(dtype: str, rounding: float) -> None:
    x = points(200, 20, offset=1e4, dtype=dtype)
    ((got, _),) = both(DISTANCE, lambda x: naive(x, x), x)
    norms = ((x - x.mean(0)) ** 2).sum(-1)
    # Two sums of 20 squares, in two orders.
    assert (np.diag(got) <= 20 * rounding * norms).all()
    assert (got >= 0).all()
    np.testing.assert_allclose(got, got.T, rtol=0, atol=20 * rounding * norms.max())


def test_a_root_of_a_distance_is_never_nan() -> None:
    x = points(200, 20, offset=1e4)
    ((got, plain),) = both(DISTANCE, lambda x: tf.sqrt(naive(x, x)), x)
    assert not np.isnan(got).any()
    off_diagonal = ~np.eye(200, dtype=bool)
    np.testing.assert_allclose(got[off_diagonal], plain[off_diagonal], rtol=1e-5)


def test_nan_and_inf_stay_where_they_were() -> None:
    x, y = points(50, 7), points(40, 7)
    x[0, 1], x[1, 1], x[2, 2], y[5, 3] = np.nan, np.inf, -np.inf, np.nan
    ((got, plain),) = both(DISTANCE, naive, x, y)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(plain))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(plain))
    np.testing.assert_allclose(got, plain, rtol=1e-5)


def test_two_infinite_points_are_infinitely_apart() -> None:
    x, y = points(50, 7), points(40, 7)
    x[1, 1] = y[1, 1] = np.inf
    ((got, plain),) = both(DISTANCE, naive, x, y)
    assert np.isnan(plain[1, 1])
    assert got[1, 1] == np.inf
    plain[1, 1] = np.inf
    np.testing.assert_allclose(got, plain, rtol=1e-5)
