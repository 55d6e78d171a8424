"""GPflow's SGPR: under a limit it is ours, without one a peer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpflow
import tensorflow as tf

from contenders.naive import start

__all__ = ["sgpr", "start"]


def sgpr(data: dict[str, Any], jit: bool = False) -> Callable[[], Any]:
    """The loss and its gradients, compiled as GPflow's optimizers do it (compile=True), or by XLA.

    Gradients are to the inducing points, the length scales, the variance and the noise, all of them
    as the optimizer sees them, unconstrained.
    """
    inducing = gpflow.inducing_variables.InducingPoints(data["inducing"])
    dimensions = data["x"].shape[1]
    model = gpflow.models.SGPR(
        (data["x"], data["y"]),
        gpflow.kernels.SquaredExponential(lengthscales=[1.0] * dimensions),
        inducing,
    )
    variables = [
        inducing.Z.unconstrained_variable,
        model.kernel.lengthscales.unconstrained_variable,
        model.kernel.variance.unconstrained_variable,
        model.likelihood.variance.unconstrained_variable,
    ]

    def loss_and_gradients() -> Any:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        return loss, *tape.gradient(loss, variables)

    return tf.function(loss_and_gradients, jit_compile=True if jit else None)
