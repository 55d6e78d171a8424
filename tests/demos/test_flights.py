"""The flights, and how regressions on them are judged."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from tf_memsafe.demos import flights, quality


def test_all_flights_count() -> None:
    points = flights.standard_features(flights.load_flights())
    assert points.shape == (flights.FLIGHTS, 5)
    assert points.dtype == np.float32
    np.testing.assert_allclose(points.mean(0, np.float64), 0, atol=1e-6)
    np.testing.assert_allclose(points.std(0, np.float64), 1, atol=1e-6)


def test_two_thirds_of_the_delays_are_learnt_from() -> None:
    delays = flights.load_delays(np.random.default_rng(0))
    (inputs, targets), (tested, _) = delays.train, delays.test
    assert inputs.shape == (2 * flights.DELAYS // 3, 8)
    assert len(inputs) + len(tested) == flights.DELAYS
    np.testing.assert_allclose(inputs.mean(0), 0, atol=1e-9)
    np.testing.assert_allclose(inputs.std(0), 1, atol=1e-9)
    np.testing.assert_allclose((targets.mean(), targets.std()), (0, 1), atol=1e-9)
    assert 40 < delays.deviation < 50


def test_the_same_seed_draws_the_same_flights() -> None:
    first, again = (flights.load_delays(np.random.default_rng(1), 50, 20) for _ in range(2))
    np.testing.assert_array_equal(first.train[0], again.train[0])
    assert first.test[1].shape == (20, 1)


def test_more_flights_than_there_are_is_an_error() -> None:
    with pytest.raises(ValueError, match="there are 327,346 flights with a delay, not 400,000"):
        flights.load_delays(np.random.default_rng(0), 400_000, 0)


def test_a_linear_model_finds_a_line_and_the_mean_does_not() -> None:
    random = np.random.default_rng(0)
    inputs, noise = random.normal(size=(2000, 8)), random.normal(size=(2000, 1))
    targets = inputs @ np.ones((8, 1)) + 0.5 * noise
    delays = flights.Delays((inputs[:1000], targets[:1000]), (inputs[1000:], targets[1000:]), 1.0)
    linear, mean = quality.linear_quality(delays), quality.mean_quality(delays)
    assert linear.rmse == pytest.approx(0.5, rel=0.1)
    assert linear.nlpd == pytest.approx(-norm.logpdf(0.5 * noise[1000:], scale=0.5).mean(), rel=0.1)
    assert mean.rmse > 2
