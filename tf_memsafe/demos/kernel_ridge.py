"""Kernel ridge regression on all flights, with few centres, solved by conjugate gradients.

The weights of the centres solve a system whose matrix is never made: each step multiplies by the
kernel of all flights and all centres, which is written naively and would be made anew in it. It is
preconditioned by the kernel of the centres, as Falkon is.

  python -m tf_memsafe.demos.kernel_ridge --memory-limit 200MB
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import tensorflow as tf

from tf_memsafe.demos import arguments, figures
from tf_memsafe.demos.conjugate import conjugate_gradients
from tf_memsafe.demos.console import say
from tf_memsafe.demos.distances import squared
from tf_memsafe.demos.flights import load_delays
from tf_memsafe.demos.quality import linear_quality, mean_quality, rmse
from tf_memsafe.demos.runs import run

JITTER = 1e-8


def kernel_ridge(penalty: float, steps: int) -> Any:
    """Ridge regression in the span of a Gaussian kernel's centres, naively.

    The function takes inputs x [n, d], targets y [n, 1], centres [m, d] and new inputs [p, d],
    all scaled by the length scales; it returns the predictions [p, 1], and how far y is from what
    is predicted for x, with the penalty: the objective that is made small.
    """

    def kernel(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.exp(-0.5 * squared(a, b))

    @tf.function(jit_compile=True)
    def predict(x: tf.Tensor, y: tf.Tensor, centres: tf.Tensor, new: tf.Tensor) -> Any:
        scale = penalty * x.shape[0]
        jitter = JITTER * tf.eye(centres.shape[0], dtype=x.dtype)
        factor = tf.linalg.cholesky(kernel(centres, centres) + jitter)

        def weights_of(v: tf.Tensor) -> tf.Tensor:
            return tf.linalg.triangular_solve(factor, v, adjoint=True)

        def product(v: tf.Tensor) -> tf.Tensor:
            fitted = tf.matmul(kernel(x, centres), weights_of(v))
            back = tf.matmul(kernel(x, centres), fitted, transpose_a=True)
            return tf.linalg.triangular_solve(factor, back) + scale * v

        right = tf.matmul(kernel(x, centres), y, transpose_a=True)
        target = tf.linalg.triangular_solve(factor, right)
        solution, _ = conjugate_gradients(product, target, steps, 1e-8)
        weights = weights_of(solution)
        residual = y - tf.matmul(kernel(x, centres), weights)
        objective = tf.reduce_sum(residual**2) + scale * tf.reduce_sum(solution**2)
        return tf.matmul(kernel(new, centres), weights), objective

    return predict


def main(given: Sequence[str] | None = None) -> int:
    """Fits with more and more centres, and checks that more of them fit better."""
    parser = arguments.parser("kernel_ridge", __doc__, "200MB")
    count = arguments.positive
    parser.add_argument("--num-train", type=count, default=None, help="None for two thirds")
    parser.add_argument("--num-test", type=count, default=None, help="None for the rest")
    parser.add_argument(
        "--centres", type=count, nargs="+", default=[100, 300, 1000], help="flights"
    )
    parser.add_argument("--steps", type=count, default=50, help="of conjugate gradients, at most")
    parser.add_argument("--lengthscale", type=float, default=2.0, help="of the kernel")
    parser.add_argument("--penalty", type=float, default=1e-6, help="on large weights")
    return arguments.run(_demo, parser, given)


def _demo(options: argparse.Namespace) -> dict[str, Any]:
    random = np.random.default_rng(options.seed)
    delays = load_delays(random, options.num_train, options.num_test)
    x, new = (tf.constant(each[0] / options.lengthscale) for each in (delays.train, delays.test))
    y = tf.constant(delays.train[1])
    predict = kernel_ridge(options.penalty, options.steps)
    errors, objectives, runs = [], [], []
    for count in options.centres:
        centres = tf.gather(x, random.choice(len(x), count, replace=False))
        message = f"{len(x):,} flights, {count:,} centres"
        (means, objective), took = run(message, predict, x, y, centres, new)
        runs.append(asdict(took))
        errors.append(rmse(means, delays.test[1]))
        objectives.append(float(objective))
        say(f"{message}: {took}; RMSE {errors[-1]:.4f}")
    figure, (axes,) = figures.panels(1, f"Kernel ridge regression on {len(x):,} flights")
    axes.plot(options.centres, errors, "o-", label="kernel ridge")
    axes.axhline(linear_quality(delays).rmse, color="gray", ls="--", label="linear model")
    axes.axhline(mean_quality(delays).rmse, color="gray", ls=":", label="mean")
    axes.set(xlabel="centres", ylabel="RMSE on test flights (standardised)", xscale="log")
    axes.legend()
    figures.save(figure, options.figure)
    return {
        "right": objectives == sorted(objectives, reverse=True),
        "centres": options.centres,
        "rmse": errors,
        "objectives": objectives,
        "runs": runs,
    }


if __name__ == "__main__":
    sys.exit(main())
