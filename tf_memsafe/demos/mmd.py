"""Do two samples come from one distribution? The maximum mean discrepancy, by permutation test.

The test compares all pairs of points by a Gaussian kernel, and sums them for each permutation. The
first two samples are flights of even and of odd days, which hardly differ; the other two are
flights from LaGuardia, which flies no long distances, and from Kennedy.

  python -m tf_memsafe.demos.mmd --memory-limit 100MB
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
from tf_memsafe.demos.flights import load_flights, minutes
from tf_memsafe.demos.runs import Run, run

Floats = npt.NDArray[np.float32]

LEVEL = 0.05
"""A smaller share of permutations above the statistic says that the distributions differ."""


@tf.function(jit_compile=True)
def discrepancies(points: tf.Tensor, signs: tf.Tensor) -> tf.Tensor:
    """The squared discrepancy of each split of points [n, d] in two, naively.

    signs: [n, splits], 1 / n of the first sample for its points, and -1 / n of the other for its.
    """
    kernel = tf.exp(-0.5 * squared(points, points))
    return tf.reduce_sum(signs * tf.matmul(kernel, signs), 0)


def split_signs(first: int, second: int, permutations: int, seed: int) -> Floats:
    """The signs of the samples as given, then of random splits, as [points, 1 + permutations]."""
    random = np.random.default_rng(seed)
    given = np.concatenate([np.full(first, 1 / first), np.full(second, -1 / second)])
    columns = [given, *(random.permutation(given) for _ in range(permutations))]
    signs: Floats = np.stack(columns, 1).astype(np.float32)
    return signs


def main(given: Sequence[str] | None = None) -> int:
    """Runs both tests, and checks that the airports differ."""
    parser = arguments.parser("mmd", __doc__, "100MB")
    parser.add_argument("--num", type=arguments.positive, default=10_000, help="in each sample")
    parser.add_argument(
        "--permutations", type=arguments.positive, default=200, help="to compare to"
    )
    return arguments.run(_demo, parser, given)


def _statistics(name: str, points: Floats, options: argparse.Namespace) -> tuple[Floats, Run]:
    """The discrepancy of two samples, one below the other, and of random splits."""
    signs = split_signs(options.num, options.num, options.permutations, options.seed)
    statistics, took = run(name, discrepancies, tf.constant(points), tf.constant(signs))
    say(f"{name}: {len(points):,} flights, {took}")
    return statistics, took


def _demo(options: argparse.Namespace) -> dict[str, Any]:
    flights = load_flights().dropna(subset=["dep_delay", "air_time"])
    columns = [minutes(flights["sched_dep_time"]), flights["air_time"], flights["distance"]]
    values = np.stack(columns, -1).astype(np.float64)
    points = ((values - values.mean(0)) / values.std(0)).astype(np.float32)
    even, origin = flights["day"] % 2 == 0, flights["origin"]
    tests = {
        "even and odd days": (even, ~even),
        "LaGuardia and Kennedy": (origin == "LGA", origin == "JFK"),
    }
    random = np.random.default_rng(options.seed)

    figure, axes = figures.panels(2, "Maximum mean discrepancy: the samples, and random splits")
    shares, runs = [], []
    for each, (name, sides) in zip(axes, tests.items(), strict=True):
        rows = [random.choice(np.flatnonzero(side), options.num, replace=False) for side in sides]
        statistics, took = _statistics(name, points[np.concatenate(rows)], options)
        runs.append(asdict(took))
        shares.append(float(np.mean(statistics[1:] >= statistics[0])))
        say(f"{name}: {shares[-1]:.1%} of random splits are as far apart")
        each.hist(statistics[1:], 30, label="random splits")
        each.axvline(statistics[0], color="firebrick", label="the samples")
        each.set(title=name, xlabel="squared discrepancy")
        each.legend()
    figures.save(figure, options.figure)
    return {"right": shares[1] < LEVEL, "shares": shares, "runs": runs}


if __name__ == "__main__":
    sys.exit(main())
