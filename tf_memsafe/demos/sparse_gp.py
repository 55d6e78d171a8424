"""Arrival delays of flights learnt by GPflow's sparse GP, under a memory limit.

The model is GPflow's SGPR with a length scale for each input, trained by GPflow's L-BFGS, both
untouched. The flights are the 327,346 that left New York City in 2013 and arrived; two thirds are
learnt from. More inducing points make a better model, and need more memory: under the limit one
can have both. Run it with

  python -m tf_memsafe.demos.sparse_gp --memory-limit 1GB --num-inducing 100 200 500
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure
from scipy.optimize import OptimizeResult
from sklearn.cluster import MiniBatchKMeans

import tf_memsafe
from tf_memsafe.demos import arguments, figures
from tf_memsafe.demos.console import progress, say, table
from tf_memsafe.demos.flights import Delays, Doubles, load_delays
from tf_memsafe.demos.quality import Quality, linear_quality, mean_quality, rmse
from tf_memsafe.demos.runs import HEADINGS, Run, measured
from tf_memsafe.limits import format_bytes
from tf_memsafe.machine import peak_resident_memory


@dataclass(frozen=True)
class Trained:
    """A model with `inducing` points after its training: the loss after each iteration, and more.

    took: the peaks of one loss with its gradient; the memory and the seconds of the training.
    """

    inducing: int
    losses: list[float]
    quality: Quality
    took: Run


def sparse_gp(data: tuple[Doubles, Doubles], inducing: int, seed: int) -> Any:
    """GPflow's SGPR on inputs [n, d] and targets [n, 1]; k-means places its inducing points."""
    means = MiniBatchKMeans(inducing, n_init=1, random_state=seed).fit(data[0])
    kernel = gpflow.kernels.SquaredExponential(lengthscales=[1.0] * data[0].shape[1])
    return gpflow.models.SGPR(data, kernel, means.cluster_centers_)


def loss_and_gradients(model: Any) -> Any:
    """One step of training as a function of nothing: the loss and its gradients."""

    @tf.function(jit_compile=True)
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        gradients = tape.gradient(loss, model.trainable_variables)
        return [loss, *map(tf.convert_to_tensor, gradients)]

    return step


def train(model: Any, iterations: int, after_each: Callable[[float], None]) -> None:
    """Trains a model by GPflow's L-BFGS; `after_each` is given each iteration's loss."""

    def callback(intermediate_result: OptimizeResult) -> None:  # SciPy goes by this name
        after_each(float(intermediate_result.fun))

    gpflow.optimizers.Scipy().minimize(
        model.training_loss,
        model.trainable_variables,
        callback=callback,
        options={"maxiter": iterations},
    )


def test(model: Any, data: tuple[Doubles, Doubles]) -> Quality:
    """How well a model predicts inputs [n, d] and targets [n, 1]."""

    @tf.function(jit_compile=True)
    def predict(inputs: tf.Tensor, targets: tf.Tensor) -> Any:
        mean, _ = model.predict_y(inputs)
        return mean, model.predict_log_density((inputs, targets))

    mean, densities = predict(*map(tf.constant, data))
    return Quality(rmse(mean.numpy(), data[1]), -float(tf.reduce_mean(densities)))


def main(given: Sequence[str] | None = None) -> int:
    """Trains, tests, prints a table and saves a figure; see `arguments.run` for what it returns."""
    parser = arguments.parser("sparse_gp", __doc__)
    count = arguments.positive
    parser.add_argument(
        "--num-inducing", type=count, nargs="+", default=[100, 200, 500], help="one model for each"
    )
    parser.add_argument("--num-train", type=count, default=None, help="None for two thirds")
    parser.add_argument("--num-test", type=count, default=None, help="None for the rest")
    parser.add_argument(
        "--iterations", type=int, default=30, help="0 for one loss and gradient, untrained"
    )
    return arguments.run(_demo, parser, given)


def _demo(options: argparse.Namespace) -> dict[str, Any]:
    delays = load_delays(np.random.default_rng(options.seed), options.num_train, options.num_test)
    say(
        f"{len(delays.train[0]):,} flights to learn from, {len(delays.test[0]):,} to test on; "
        f"delays deviate by {delays.deviation:.1f} minutes, here the unit."
    )
    runs = [
        _trained(delays, inducing, options.seed, options.iterations)
        for inducing in options.num_inducing
    ]
    results = {
        "right": all(np.isfinite([run.quality.rmse, run.quality.nlpd]).all() for run in runs),
        "memory_limit": tf_memsafe.get_memory_limit(),
        "train": len(delays.train[0]),
        "test": len(delays.test[0]),
        "iterations": options.iterations,
        "seed": options.seed,
        "mean": asdict(mean_quality(delays)),
        "linear": asdict(linear_quality(delays)),
        "runs": [asdict(run) for run in runs],
    }
    say("", summary(results), "")
    figures.save(draw(results), options.figure)
    return results


def _trained(delays: Delays, inducing: int, seed: int, iterations: int) -> Trained:
    with progress(f"Placing {inducing:,} inducing points"):
        model = sparse_gp(delays.train, inducing, seed)
    step = loss_and_gradients(model)
    losses: list[float] = []
    start = time.perf_counter()

    def after_each(loss: float) -> None:
        losses.append(loss)
        seconds, resident = time.perf_counter() - start, format_bytes(peak_resident_memory())
        say(f"  {len(losses):>3}  loss {loss:,.3f}  {seconds:.1f} s  resident memory {resident}")

    def fit() -> None:
        if iterations:
            train(model, iterations, after_each)
        else:
            after_each(float(step()[0]))

    _, took = measured(fit, step)
    say(f"One loss with its gradient: {took} in all")
    with progress("Testing"):
        quality = test(model, delays.test)
    return Trained(inducing, losses, quality, took)


def summary(results: dict[str, Any]) -> str:
    """A demo's results (the JSON file's content) as a table."""
    rows = [["model", "RMSE", "NLPD", "loss", *HEADINGS]]
    for name in ("mean", "linear"):
        rows.append([name, *_cells(results[name]), *[""] * (1 + len(HEADINGS))])
    for each in results["runs"]:
        name, loss = f"SGPR, {each['inducing']:,} points", f"{each['losses'][-1]:,.1f}"
        rows.append([name, *_cells(each["quality"]), loss, *Run(**each["took"]).cells()])
    return table(rows)


def _cells(quality: dict[str, float]) -> list[str]:
    return [f"{quality[name]:.4f}" for name in ("rmse", "nlpd")]


def draw(results: dict[str, Any]) -> Figure:
    """The losses by iteration, and quality and memory by the number of inducing points."""
    limit = results["memory_limit"]
    under = "no limit" if limit is None else f"a limit of {format_bytes(limit)}"
    title = f"GPflow's SGPR on {results['train']:,} flights under {under}"
    figure, (left, middle, right) = figures.panels(3, title)
    runs = sorted(results["runs"], key=lambda each: each["inducing"])
    inducing = [each["inducing"] for each in runs]
    for each in runs:
        steps = range(1, 1 + len(each["losses"]))
        left.plot(steps, each["losses"], ".-", label=f"{each['inducing']:,} inducing points")
    left.set(xlabel="iteration", ylabel="loss (negative evidence bound)")

    middle.plot(inducing, [each["quality"]["rmse"] for each in runs], "o-", label="SGPR")
    middle.axhline(results["linear"]["rmse"], color="gray", ls="--", label="linear model")
    middle.axhline(results["mean"]["rmse"], color="gray", ls=":", label="mean")
    middle.set(xlabel="inducing points", ylabel="RMSE on test flights (standardised)")

    for key, label in (("peak_before", "as written"), ("peak_after", "under the limit")):
        right.plot(inducing, [each["took"][key] for each in runs], "o-", label=label)
    figures.mark_limit(right, limit)
    right.set(xlabel="inducing points", ylabel="peak of a loss with its gradient")
    figures.show_bytes(right)
    for axes in (left, middle, right):
        axes.legend()
    return figure


if __name__ == "__main__":
    sys.exit(main())
