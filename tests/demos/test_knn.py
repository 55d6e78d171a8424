"""The nearest-neighbour demo, at a size of its own where the naive matrix breaks the limit too."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import pairwise_distances

import tf_memsafe
from tf_memsafe.demos import knn
from tf_memsafe.demos.distances import FORMS
from tf_memsafe.demos.flights import load_flights, standard_features
from tf_memsafe.demos.neighbour_classes import METRICS, as_near, naive_knn, vote

SMALL = ["--parts", "flights", "--points", "3000", "--queries", "200", "--neighbours", "5"]
"""A matrix of 2.4 MB."""


def test_it_finds_the_nearest_flights_under_a_limit(capfd: pytest.CaptureFixture[str]) -> None:
    assert knn.main([*SMALL, "--memory-limit", "1MB"]) == 0
    output = capfd.readouterr().out
    assert "3,000 flights for the 5 most like each of 200" in output
    assert "a matrix of 2.40 MB; the memory limit is 1.00 MB" in output
    assert "50 queries against distances in f64: all nearest" in output
    assert "peak before" in output
    assert "peak after" in output


def test_its_function_is_cut_to_the_limit() -> None:
    points = standard_features(load_flights())[:3000]
    report = tf_memsafe.explain(naive_knn(5), points[:200], points, memory_limit="1MB")
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
        (["--points", "0"], "invalid positive value: '0'"),
        (["--points", "336777"], "--points must be from 1 to 336776"),
        (["--queries", "-1"], "invalid positive value: '-1'"),
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


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_the_distance(form: str) -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(20, 4)), random.normal(size=(30, 4))
    expected = pairwise_distances(x, y, metric=METRICS[form])
    np.testing.assert_allclose(FORMS[form](tf.constant(x), tf.constant(y)), expected, atol=1e-12)


def test_the_most_frequent_class_wins_and_of_equals_the_smallest() -> None:
    assert vote(np.array([[2, 1, 2], [3, 0, 1]])).tolist() == [2, 0]


def test_neighbours_that_tie_may_swap_but_others_may_not() -> None:
    exact = np.array([[1.0, 2.0, 2.0, 3.0]])
    assert as_near(exact, np.array([[0, 1]]), np.array([[0, 2]]), 1e-9)
    assert as_near(exact, np.array([[1, 0]]), np.array([[0, 1]]), 1e-9)
    assert not as_near(exact, np.array([[0, 3]]), np.array([[0, 1]]), 1e-9)


def test_the_figure_shows_each_form() -> None:
    took = {"peak_before": 2_000_000, "peak_after": 1_000_000, "seconds": 1.0}
    runs = [{"form": "l2", "points": points, **took} for points in (10, 100)]
    figure = knn.draw(runs)
    assert figure.axes[1].get_lines()[0].get_label() == "l2"
