"""GPflow models that several benchmarks run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf


def sgpr(points: int, inducing: int) -> Callable[[], Any]:
    """A function that returns the loss and the gradients of an SGPR on [points, 5], f64."""
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(points, 5))
    targets = np.sin(inputs[:, :1]) + 0.1 * generator.normal(size=(points, 1))
    kernel = gpflow.kernels.SquaredExponential(lengthscales=[1.0] * 5)
    model = gpflow.models.SGPR((inputs, targets), kernel, inputs[:inducing].copy())

    def loss_and_gradient() -> Any:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        return loss, tape.gradient(loss, model.trainable_variables)

    return loss_and_gradient
