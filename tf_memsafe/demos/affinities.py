"""The affinities of t-SNE: each point's own Gaussian width, found for all pairs of points.

Every step of a bisection, inside a tf.while_loop, computes the entropy of each point's distances
to all others, so that all points have as many near neighbours (the perplexity). Written naively
that is a matrix of all pairs in each step. The points are flights; the figure shows the widths.

  python -m tf_memsafe.demos.affinities --memory-limit 50MB
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tf_memsafe.demos import arguments, figures
from tf_memsafe.demos.console import say
from tf_memsafe.demos.distances import squared
from tf_memsafe.demos.flights import load_flights, standard_features
from tf_memsafe.demos.runs import run

TOLERANCE = 0.01
"""What a perplexity may be off by, over the one that is wanted."""


def widths(perplexity: float, steps: int = 40) -> Any:
    """Bisection for the widths of points x [n, d], naively; it returns them and the perplexities.

    A width is the 1 / (2 s^2) of a Gaussian of deviation s around a point. Both results are [n].
    """

    def entropy(x: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        never = tf.fill([x.shape[0]], 1e9)  # a point is not its own neighbour
        logits = -tf.linalg.set_diag(squared(x, x), never) * width[:, None]
        chances = tf.nn.softmax(logits)
        return -tf.reduce_sum(chances * tf.nn.log_softmax(logits), 1)

    @tf.function(jit_compile=True)
    def search(x: tf.Tensor) -> Any:
        def halve(step: tf.Tensor, low: tf.Tensor, high: tf.Tensor) -> Any:
            middle = (low + high) / 2
            wide = entropy(x, tf.exp(middle)) > np.log(perplexity)
            return step + 1, tf.where(wide, middle, low), tf.where(wide, high, middle)

        start = (0, tf.fill([x.shape[0]], -10.0), tf.fill([x.shape[0]], 12.0))
        _, low, high = tf.while_loop(lambda step, low, high: step < steps, halve, start)
        found = tf.exp((low + high) / 2)
        return found, tf.exp(entropy(x, found))

    return search


def main(given: Sequence[str] | None = None) -> int:
    """Finds the widths, and checks the perplexities."""
    parser = arguments.parser("affinities", __doc__, "50MB")
    parser.add_argument("--num", type=arguments.positive, default=10_000, help="points")
    parser.add_argument("--perplexity", type=float, default=30.0, help="near neighbours of each")
    return arguments.run(_demo, parser, given)


def _demo(options: argparse.Namespace) -> dict[str, Any]:
    flights = standard_features(load_flights())
    random = np.random.default_rng(options.seed)
    rows = random.choice(len(flights), options.num, replace=False)
    points = tf.constant(flights[rows])
    search = widths(options.perplexity)
    message = f"The widths of {options.num:,} points"
    (found, perplexities), took = run(message, search, points)
    off = float(np.abs(perplexities / options.perplexity - 1).max())
    say(f"{message}: {took}; perplexities are off by {off:.1e}")
    deviations: npt.NDArray[np.float32] = 1 / np.sqrt(2 * found)
    figure, (axes,) = figures.panels(1, f"How far the neighbours of {options.num:,} flights are")
    axes.hist(deviations, 60)
    axes.set(xlabel="deviation of a flight's Gaussian", ylabel="flights")
    figures.save(figure, options.figure)
    return {"right": off <= TOLERANCE, "off": off, "runs": [asdict(took)]}


if __name__ == "__main__":
    sys.exit(main())
