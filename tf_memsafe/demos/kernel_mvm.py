"""A kernel matrix times a vector, and exact Gaussian processes by conjugate gradients.

Three parts, each under the memory limit:

  product   y = K v for the Gaussian kernel between n random points: K has n^2 entries
  exact     an exact GP on flights, its weights found by conjugate gradients with K v in each step
  cglb      GPflow's CGLB, a bound of the same GP's likelihood, on the same flights

Run them with

  python -m tf_memsafe.demos.kernel_mvm --memory-limit 300MB
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from matplotlib.figure import Figure
from sklearn.cluster import MiniBatchKMeans

import tf_memsafe
from tf_memsafe.demos import arguments, figures
from tf_memsafe.demos.conjugate import conjugate_gradients
from tf_memsafe.demos.console import progress, say, table
from tf_memsafe.demos.flights import Delays, Doubles, load_delays
from tf_memsafe.demos.quality import linear_quality, rmse
from tf_memsafe.demos.runs import HEADINGS, run

PARTS = ("product", "exact", "cglb")
CHECKED_ROWS = 1000
ROW_TOLERANCE = 1e-5
"""Of the largest product: what K v may be off by in f32."""
PREDICTION_TOLERANCE = 1e-4
"""Of the targets' deviation: what conjugate gradients may be off by."""


@dataclass(frozen=True)
class Gaussian:
    """A Gaussian kernel with a length scale for each input, and noise; all are variances or f64."""

    variance: float
    lengthscales: Doubles
    noise: float

    def matrix(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        """The kernel of each of x [n, d] with each of y [m, d], as [n, m]."""
        scales = tf.constant(self.lengthscales, x.dtype)
        difference = (x[:, None, :] - y[None, :, :]) / scales
        return self.variance * tf.exp(-0.5 * tf.reduce_sum(difference**2, -1))


@tf.function(jit_compile=True)
def kernel_times_vector(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    """K v as a user writes it, naively: it builds K [n, n] of the points x [n, d]; v is [n]."""
    squared_distances = tf.reduce_sum((x[:, None, :] - x[None, :, :]) ** 2, -1)
    return tf.linalg.matvec(tf.exp(-0.5 * squared_distances), v)


def exact_gp(kernel: Gaussian, steps: int, tolerance: float) -> Any:
    """An exact GP by conjugate gradients, naively: each step builds the whole kernel matrix.

    The function takes inputs x [n, d], targets y [n, 1] and new inputs [m, d]. It returns the
    predicted means [m, 1] and the number of steps, at most `steps`, that made the residual smaller
    than `tolerance` times the targets.
    """

    @tf.function(jit_compile=True)
    def predict(x: tf.Tensor, y: tf.Tensor, new: tf.Tensor) -> Any:
        def product(v: tf.Tensor) -> tf.Tensor:
            return tf.matmul(kernel.matrix(x, x), v) + kernel.noise * v

        weights, step = conjugate_gradients(product, y, steps, tolerance)
        return tf.matmul(kernel.matrix(new, x), weights), step

    return predict


def fit_kernel(data: tuple[Doubles, Doubles], iterations: int = 30) -> Gaussian:
    """The kernel and the noise that GPflow's exact GP finds likely for a few flights."""
    model = _gpr(data, Gaussian(1.0, np.ones(data[0].shape[1]), 1.0))
    gpflow.optimizers.Scipy().minimize(
        model.training_loss,
        model.trainable_variables,
        options={"maxiter": iterations},
    )
    return Gaussian(
        float(model.kernel.variance.numpy()),
        model.kernel.lengthscales.numpy(),
        float(model.likelihood.variance.numpy()),
    )


def _gpr(data: tuple[Doubles, Doubles], kernel: Gaussian) -> Any:
    made = gpflow.kernels.SquaredExponential(kernel.variance, kernel.lengthscales)
    return gpflow.models.GPR(data, made, noise_variance=kernel.noise)


def main(given: Sequence[str] | None = None) -> int:
    """Runs the parts, prints what they took and checks them; returns what `arguments.run` does."""
    parser = arguments.parser("kernel_mvm", __doc__, "300MB")
    count = arguments.positive
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to run"
    )
    parser.add_argument(
        "--points", type=count, nargs="+", default=[10_000, 30_000, 100_000], help="n of K v"
    )
    parser.add_argument("--dimensions", type=count, default=3, help="of the points of K v")
    parser.add_argument(
        "--lengthscale", type=float, default=0.2, help="of the kernel of K v, in deviations"
    )
    parser.add_argument("--num-train", type=count, default=20_000, help="flights to learn from")
    parser.add_argument("--num-test", type=count, default=5_000, help="flights to test on")
    parser.add_argument("--num-subset", type=count, default=1_000, help="flights to fit kernels to")
    parser.add_argument(
        "--num-cholesky", type=count, default=5_000, help="flights to compare with Cholesky's GP"
    )
    parser.add_argument("--num-cglb", type=count, default=5_000, help="flights for CGLB")
    parser.add_argument("--num-inducing", type=count, default=200, help="points of CGLB")
    parser.add_argument("--cg-steps", type=count, default=300, help="at most")
    parser.add_argument("--cg-tolerance", type=float, default=1e-5, help="of the residual")
    return arguments.run(_demo, parser, given)


def _demo(options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "product" in options.parts:
        found["product"] = _product(options)
    if {"exact", "cglb"} & set(options.parts):
        random = np.random.default_rng(options.seed)
        delays = load_delays(random, options.num_train, options.num_test)
        with progress(f"Fitting a kernel to {options.num_subset:,} flights"):
            kernel = fit_kernel(_first(delays.train, options.num_subset))
        if "exact" in options.parts:
            found["exact"] = _exact(delays, kernel, options)
        if "cglb" in options.parts:
            found["cglb"] = _cglb(delays, kernel, options)
    return {"right": all(part["right"] for part in found.values()), **found}


def _product(options: argparse.Namespace) -> dict[str, Any]:
    random = np.random.default_rng(options.seed)
    rows, errors, runs = [["n", *HEADINGS, "largest error"]], [], []
    for n in options.points:
        x = random.normal(size=(n, options.dimensions)) / options.lengthscale
        x = x.astype(np.float32)
        v = random.normal(size=n).astype(np.float32)
        message = f"K v for n = {n:,}"
        y, took = run(message, kernel_times_vector, tf.constant(x), tf.constant(v))
        errors.append(_row_error(x, v, y, random))
        runs.append(asdict(took))
        rows.append([f"{n:,}", *took.cells(), f"{errors[-1]:.1e}"])
    say("", table(rows))
    found = {
        "right": max(errors) <= ROW_TOLERANCE,
        "points": options.points,
        "dimensions": options.dimensions,
        "errors": errors,
        "runs": runs,
    }
    figures.save(draw(found), options.figure)
    return found


def _row_error(
    x: npt.NDArray[np.float32],
    v: npt.NDArray[np.float32],
    y: npt.NDArray[np.float32],
    random: np.random.Generator,
) -> float:
    """How far rows of y are from K v in f64, over the largest of them."""
    rows = random.choice(len(x), min(CHECKED_ROWS, len(x)), replace=False)
    points, vector = x.astype(np.float64), v.astype(np.float64)
    exact = np.array(
        [np.exp(-0.5 * np.square(points - points[row]).sum(-1)) @ vector for row in rows]
    )
    return float(np.abs(y[rows] - exact).max() / np.abs(exact).max())


def _exact(delays: Delays, kernel: Gaussian, options: argparse.Namespace) -> dict[str, Any]:
    predict = exact_gp(kernel, options.cg_steps, options.cg_tolerance)
    runs = []

    def solve(count: int) -> tuple[Doubles, float]:
        tensors = map(tf.constant, (*_first(delays.train, count), delays.test[0]))
        message = f"Exact GP of {count:,} flights"
        (means, steps), took = run(message, predict, *tensors)
        error = rmse(means, delays.test[1])
        say(f"{message}: {steps} steps, {took}; RMSE {error:.4f}")
        runs.append(asdict(took))
        return means, error

    _, error = solve(options.num_train)
    means, _ = solve(options.num_cholesky)
    with progress("The same by Cholesky"), tf_memsafe.memory_limit(None):
        model = _gpr(_first(delays.train, options.num_cholesky), kernel)
        expected = model.predict_f(delays.test[0])[0].numpy()
    apart = float(np.abs(means - expected).max())
    linear = linear_quality(delays).rmse
    say(
        f"Largest difference from Cholesky's GP: {apart:.1e} of the delays' deviation",
        f"RMSE of a linear model: {linear:.4f}",
    )
    right = apart <= PREDICTION_TOLERANCE
    return {"right": right, "apart": apart, "rmse": error, "linear": linear, "runs": runs}


def _cglb(delays: Delays, kernel: Gaussian, options: argparse.Namespace) -> dict[str, Any]:
    data = _first(delays.train, options.num_cglb)
    means = MiniBatchKMeans(options.num_inducing, n_init=1, random_state=options.seed).fit(data[0])
    model = gpflow.models.CGLB(
        data,
        gpflow.kernels.SquaredExponential(kernel.variance, kernel.lengthscales),
        means.cluster_centers_,
        noise_variance=kernel.noise,
    )
    # GPflow 2.9 starts a tf.while_loop from its Parameter, which TensorFlow 2.21 does not take.
    model._v = tf.Variable(model.aux_vec, trainable=False)

    @tf.function(jit_compile=True)
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        gradients = tape.gradient(loss, model.trainable_variables)
        return [loss, *map(tf.convert_to_tensor, gradients)]

    message = f"CGLB of {options.num_cglb:,} flights"
    (loss, *_), took = run(message, step)
    say(f"{message}: {took}; loss {loss:,.2f}")
    return {"right": bool(np.isfinite(loss)), "loss": float(loss), "runs": [asdict(took)]}


def _first(data: tuple[Doubles, Doubles], count: int) -> tuple[Doubles, Doubles]:
    return data[0][:count], data[1][:count]


def draw(found: dict[str, Any]) -> Figure:
    """Peak and time by the number of points, of what the part "product" found."""
    title = f"A naive kernel matrix times a vector, D = {found['dimensions']}, f32"
    figure, (left, right) = figures.panels(2, title)
    for key, label in (("peak_before", "as written"), ("peak_after", "under the limit")):
        left.loglog(found["points"], [took[key] for took in found["runs"]], "o-", label=label)
    figures.mark_limit(left, tf_memsafe.get_memory_limit())
    figures.show_bytes(left)
    left.set(xlabel="points", ylabel="peak")
    left.legend()
    right.loglog(found["points"], [took["seconds"] for took in found["runs"]], "o-")
    right.set(xlabel="points", ylabel="seconds, compilation included")
    return figure


if __name__ == "__main__":
    sys.exit(main())
