"""The gradient of a kernel matrix times a vector, naively, under 200 MB: 4 times KeOps's speed.

Of u' K v, to the points and the hyperparameters. Naive code with a GradientTape, beside KeOps's own
differentiation, and JAX's of a loop over chunks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

from _contenders import jax_chunked, ours
from frame.case import Case, Contender, Size, Work
from frame.command import main
from kernel_product import LIMIT, MATERN, SE, arguments

SPECS = {
    Size.FULL: [
        (SE, "float32", 20_000, 1),
        (SE, "float32", 20_000, 3),
        (SE, "float32", 20_000, 10),
        (SE, "float32", 20_000, 50),
        (SE, "float64", 20_000, 3),
        (MATERN, "float32", 20_000, 3),
        (MATERN, "float64", 20_000, 10),
        (SE, "float32", 50_000, 3),
    ],
    Size.QUICK: [(SE, "float32", 10_000, 3)],
    Size.TINY: [(SE, "float64", 300, 3)],
}
TOLERANCE = {"float32": 1e-3, "float64": 1e-8}


def cases(size: Size) -> Iterator[Case]:
    for kernel, dtype, count, width in SPECS[size]:
        yield Case(
            f"{kernel}, {dtype}, N = {count:,}, D = {width}",
            "kernel_gradient",
            [ours(LIMIT), jax_chunked(), Contender("KeOps", "keops", eager=True, speed=4.0)],
            partial(arguments, count, width, dtype),
            {"name": kernel},
            tolerance=TOLERANCE[dtype],
            least=Work(6.0 * count**2 * (width + 1), float(count) ** 2, dtype=dtype),
        )


if __name__ == "__main__":
    sys.exit(main(__doc__, cases))
