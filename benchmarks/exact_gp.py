"""An exact GP by conjugate gradients, naively, under 200 MB: twice as fast as GPyTorch with KeOps.

f32, 3 inputs. Ours are a textbook's conjugate gradients without a preconditioner, GPyTorch's have
the preconditioner that it brings. Both stop at the same residual.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

import numpy as np
from _contenders import ours
from frame.case import Arrays, Case, Contender, Size, normal
from frame.command import main

LIMIT = 200_000_000
SIZES = {Size.FULL: 20_000, Size.QUICK: 5_000, Size.TINY: 300}
RESIDUAL, STEPS = 1e-3, 200
TOLERANCE = 1e-2
"""Of the largest weight: two solutions with such residuals may be so far apart."""


def regression(count: int) -> Arrays:
    x = normal(count, 3)
    y = np.sin(3 * x[:, :1]) + 0.3 * normal(count, 1, seed=1)
    return {
        "x": x,
        "y": y.astype("float32"),
        "lengthscales": np.full(3, 0.5, "float32"),
        "noise": np.array(0.5, "float32"),
    }


def cases(size: Size) -> Iterator[Case]:
    count = SIZES[size]
    yield Case(
        f"n = {count:,}",
        "exact_gp",
        [ours(LIMIT), Contender("GPyTorch with KeOps", "gpytorch_models", speed=2.0)],
        partial(regression, count),
        {"tolerance": RESIDUAL, "steps": STEPS},
        tolerance=TOLERANCE,
        timeout=300,
    )


if __name__ == "__main__":
    sys.exit(main(__doc__, cases))
