"""How good a regression is, and two models so simple that any other has to beat them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tf_memsafe.demos.flights import Delays, Doubles


@dataclass(frozen=True)
class Quality:
    """Of predictions of standardised targets, the smaller the better.

    rmse: the root of the mean squared error. nlpd: the mean negative log predictive density.
    """

    rmse: float
    nlpd: float


def rmse(predictions: Doubles, targets: Doubles) -> float:
    """The root of the mean squared error of [n, 1] against [n, 1]."""
    return float(np.sqrt(np.mean((predictions - targets) ** 2)))


def mean_quality(delays: Delays) -> Quality:
    """Of predicting the mean of the training targets, always."""
    (_, learnt), (_, targets) = delays.train, delays.test
    return _gaussian(np.full_like(targets, learnt.mean()), targets, float(learnt.std()))


def linear_quality(delays: Delays) -> Quality:
    """Of a least-squares fit of the training targets."""
    (inputs, learnt), (tested, targets) = delays.train, delays.test
    weights = np.linalg.lstsq(_with_ones(inputs), learnt, rcond=None)[0]
    residuals = learnt - _with_ones(inputs) @ weights
    return _gaussian(_with_ones(tested) @ weights, targets, float(residuals.std()))


def _with_ones(inputs: Doubles) -> Doubles:
    return np.concatenate([inputs, np.ones((len(inputs), 1))], 1)


def _gaussian(predictions: Doubles, targets: Doubles, deviation: float) -> Quality:
    error = rmse(predictions, targets)
    density = 0.5 * np.log(2 * np.pi * deviation**2) + 0.5 * (error / deviation) ** 2
    return Quality(error, float(density))
