"""The sparse GP demo: the same training as GPflow's own, and no larger than the limit."""

from __future__ import annotations

import numpy as np
import pytest

import tf_memsafe
from tf_memsafe.demos import sparse_gp
from tf_memsafe.demos.flights import load_delays


def losses(limit: str | None) -> list[float]:
    delays = load_delays(np.random.default_rng(0), 3000, 1)
    model = sparse_gp.sparse_gp(delays.train, 50, seed=0)
    found: list[float] = []
    with tf_memsafe.memory_limit(limit):
        sparse_gp.train(model, 8, found.append)
    return found


def test_training_under_a_limit_is_plain_gpflows() -> None:
    plain, limited = losses(None), losses("3MB")
    assert len(tf_memsafe.last_reports()) > 0
    assert tf_memsafe.last_reports()[-1].peak_after <= 3_000_000
    assert len(plain) == 8
    assert plain == sorted(plain, reverse=True)
    np.testing.assert_allclose(limited, plain, rtol=1e-6)


def test_a_summary_and_a_figure_tell_of_each_model() -> None:
    took = {"peak_before": 3_000_000, "peak_after": 1_000_000, "resident": 0, "seconds": 2.0}
    quality = {"rmse": 0.9, "nlpd": 1.3}
    results = {
        "memory_limit": 1_000_000,
        "train": 1000,
        "mean": {"rmse": 1.0, "nlpd": 1.4},
        "linear": {"rmse": 0.95, "nlpd": 1.35},
        "runs": [
            {"inducing": inducing, "losses": [3.0, 2.0], "quality": quality, "took": took}
            for inducing in (50, 100)
        ],
    }
    text = sparse_gp.summary(results)
    assert "SGPR, 100 points  0.9000  1.3000  2.0" in text
    left, middle, _ = sparse_gp.draw(results).axes
    assert [line.get_label() for line in left.get_lines()] == [
        "50 inducing points",
        "100 inducing points",
    ]
    assert middle.get_lines()[0].get_ydata() == pytest.approx([0.9, 0.9])
