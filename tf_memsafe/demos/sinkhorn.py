"""How to carry one cloud of points to another at the least cost: Sinkhorn's algorithm.

Each step is a log-sum-exp over the costs of all pairs, written naively inside a tf.while_loop. The
clouds are a circle and a random spread; the figure shows where each point is carried.

  python -m tf_memsafe.demos.sinkhorn --memory-limit 50MB
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
from tf_memsafe.demos.runs import run

Floats = npt.NDArray[np.float32]

SHOWN = 300
TOLERANCE = 0.05
"""What the mass that leaves a point may be off by, over the mass that should."""


def sinkhorn(steps: int, blur: float) -> Any:
    """Sinkhorn's algorithm for clouds x [n, d] and y [m, d] of equal masses, naively.

    The function returns where each point of x is carried [n, d], and the mass that leaves each
    point [n], times n: 1 when the algorithm has converged.
    """

    @tf.function(jit_compile=True)
    def carry(x: tf.Tensor, y: tf.Tensor) -> Any:
        n, m = (float(each.shape[0]) for each in (x, y))

        def improve(step: tf.Tensor, f: tf.Tensor, g: tf.Tensor) -> Any:
            f = -blur * (tf.reduce_logsumexp((g[None, :] - squared(x, y)) / blur, 1) - np.log(m))
            g = -blur * (tf.reduce_logsumexp((f[:, None] - squared(x, y)) / blur, 0) - np.log(n))
            return step + 1, f, g

        start = (0, tf.zeros([x.shape[0]]), tf.zeros([y.shape[0]]))
        _, f, g = tf.while_loop(lambda step, f, g: step < steps, improve, start)
        masses = tf.exp((f[:, None] + g[None, :] - squared(x, y)) / blur) / m
        leaving = tf.reduce_sum(masses, 1)
        return tf.matmul(masses, y) / leaving[:, None], leaving

    return carry


def main(given: Sequence[str] | None = None) -> int:
    """Carries a circle to a spread, and checks that the same mass leaves each point."""
    parser = arguments.parser("sinkhorn", __doc__, "50MB")
    parser.add_argument("--num", type=arguments.positive, default=10_000, help="points in a cloud")
    parser.add_argument("--steps", type=arguments.positive, default=50, help="of the algorithm")
    parser.add_argument("--blur", type=float, default=0.05, help="squared distance that is blurred")
    return arguments.run(_demo, parser, given)


def clouds(count: int, random: np.random.Generator) -> tuple[Floats, Floats]:
    """A circle, and two spreads beside it: [count, 2] each."""
    angles = random.uniform(0, 2 * np.pi, count)
    circle = np.stack([np.cos(angles), np.sin(angles)], 1)
    spreads = (
        0.3 * random.normal(size=(count, 2)) + np.where(np.arange(count) % 2, 1.5, -1.5)[:, None]
    )
    return circle.astype(np.float32), spreads.astype(np.float32)


def _demo(options: argparse.Namespace) -> dict[str, Any]:
    x, y = clouds(options.num, np.random.default_rng(options.seed))
    carry = sinkhorn(options.steps, options.blur)
    message = f"{options.steps} steps for {options.num:,} points"
    (carried, leaving), took = run(message, carry, tf.constant(x), tf.constant(y))
    off = float(np.abs(leaving - 1).max())
    say(f"{message}: {took}; the mass is off by {off:.1e}")
    figure, (axes,) = figures.panels(1, f"Sinkhorn's transport of {options.num:,} points")
    few = slice(0, SHOWN)
    axes.plot(*np.stack([x[few], carried[few]]).transpose(2, 0, 1), "gray", lw=0.4, alpha=0.6)
    for cloud, label in ((x, "from"), (y, "to"), (carried, "carried")):
        axes.plot(*cloud[few].T, ".", ms=4, label=label)
    axes.set_aspect("equal")
    axes.legend()
    figures.save(figure, options.figure)
    return {"right": off <= TOLERANCE, "off": off, "runs": [asdict(took)]}


if __name__ == "__main__":
    sys.exit(main())
