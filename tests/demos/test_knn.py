"""The nearest-neighbour demo, at a size of its own where the naive matrix breaks the limit too."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tf_memsafe
from tf_memsafe.demos import knn

SMALL = ["--points", "3000", "--queries", "200", "--neighbours", "5"]  # a matrix of 2.4 MB


@pytest.fixture(autouse=True)
def no_limit_afterwards() -> Iterator[None]:
    yield
    tf_memsafe.set_memory_limit(None)


def test_it_finds_the_nearest_flights_under_a_limit(capfd: pytest.CaptureFixture[str]) -> None:
    assert knn.main([*SMALL, "--memory-limit", "1MB"]) == 0
    output = capfd.readouterr().out
    assert "3,000 flights for the 5 most like each of 200" in output
    assert "a matrix of 2.40 MB; the memory limit is 1.00 MB" in output
    assert "50 queries against distances in f64: all nearest" in output
    assert "peak before" in output
    assert "peak after" in output


def test_its_function_is_cut_to_the_limit() -> None:
    points = knn.features(knn.load_flights())[:3000]
    report = tf_memsafe.explain(knn.naive_knn(5), points[:200], points, memory_limit="1MB")
    assert report.fits
    assert report.memory_limit == 1_000_000
    assert report.peak_after <= 1_000_000 < report.peak_before
    assert len(report.loops) == 1


def test_a_limit_below_the_arguments_is_one_message(capfd: pytest.CaptureFixture[str]) -> None:
    assert knn.main([*SMALL, "--memory-limit", "10kB"]) == 1
    error = capfd.readouterr().err
    assert "10.00 kB" in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--memory-limit", "lots"], "'lots' is not a memory limit"),
        (["--points", "0"], "--points must be from 1 to 336776"),
        (["--queries", "0"], "must be positive"),
        (["--neighbours", "4000", "--points", "3000"], "must not be more than --points"),
    ],
)
def test_wrong_arguments(
    arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        knn.main(arguments)
    assert caught.value.code == 2
    assert message in capfd.readouterr().err


def test_all_flights_count() -> None:
    points = knn.features(knn.load_flights())
    assert points.shape == (knn.FLIGHTS, 5)
    assert points.dtype == np.float32
    np.testing.assert_allclose(points.mean(0, np.float64), 0, atol=1e-6)
    np.testing.assert_allclose(points.std(0, np.float64), 1, atol=1e-6)


def test_the_check_knows_right_from_wrong() -> None:
    points = np.random.default_rng(0).normal(size=(500, 5)).astype(np.float32)
    query = points[7]
    distances = np.square(points - query).sum(-1)
    order = np.argsort(distances).astype(np.int32)
    right, wrong = order[:10], order[[*range(9), 10]]
    assert knn.is_nearest(query, points, -distances[right], right)
    assert not knn.is_nearest(query, points, -distances[wrong], wrong)
    assert not knn.is_nearest(query, points, -distances[right] - 1e-3, right)
    assert not knn.is_nearest(query, points, -distances[right], np.repeat(right[:1], 10))
