"""GPflow's SGPR under 300 MB: 1.1 times its own speed, in a tenth of its memory.

Value and gradient. The model is GPflow's, compiled as its optimizers do it, in f64 with 5 inputs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

import numpy as np
from _contenders import ours
from frame.case import Arrays, Case, Contender, Size, Work, normal
from frame.command import main

LIMIT = 300_000_000
DIMENSIONS = 5
TOLERANCE = 1e-4
"""GPyTorch's noise is at least 1e-4, GPflow's 1e-6: the gradient to what both softplus is of
differs by 6e-5."""

LARGE = 327_000
"""From this N on, the contenders' matrices do not all fit into the machine."""

SIZES = {
    Size.FULL: [(100_000, 500), (100_000, 1000), (327_000, 500), (327_000, 1000)],
    Size.QUICK: [(20_000, 200)],
    Size.TINY: [(300, 10)],
}


def regression(count: int, inducing: int) -> Arrays:
    x = normal(count, DIMENSIONS, dtype="float64")
    noise = normal(count, 1, dtype="float64", seed=1)
    return {"x": x, "y": np.sin(x[:, :1]) + 0.1 * noise, "inducing": x[:inducing].copy()}


def contenders() -> list[Contender]:
    return [
        ours(LIMIT, "gpflow_models"),
        Contender("GPflow, compile=True", "gpflow_models", peer=False, speed=1.1, memory=10.0),
        Contender("GPflow, jit", "gpflow_models", {"jit": True}, peer=False, whole=True),
        Contender("GPyTorch", "gpytorch_models", eager=True, speed=1.0),
    ]


def flops(count: int, inducing: int) -> float:
    """Two triangular solves and two products of M x M with M x N, forward and backward."""
    return 6.0 * count * inducing**2


def cases(size: Size) -> Iterator[Case]:
    for count, inducing in SIZES[size]:
        yield Case(
            f"N = {count:,}, M = {inducing:,}",
            "sgpr",
            contenders(),
            partial(regression, count, inducing),
            tolerance=TOLERANCE,
            timeout=200,
            alone=count >= LARGE,
            least=Work(flops(count, inducing), dtype="float64"),
        )


if __name__ == "__main__":
    sys.exit(main(__doc__, cases))
