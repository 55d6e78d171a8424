"""Products of 4 to 72 matrices of sizes 1 to 5,000: not slower than the best library for them.

Naive code multiplies from left to right. Sizes are random, evenly on a logarithmic scale: in their
best order, most such chains take well under a millisecond a matrix. The limit is one that all fit
in: with any limit set, products are put into their best order.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np
from _contenders import floor, ours, plain
from frame.case import Arrays, Case, Contender, Size, normal
from frame.command import main

LIMIT = 8_000_000_000
LARGEST = {Size.FULL: 5_000, Size.QUICK: 2_000, Size.TINY: 30}
LENGTHS = {Size.FULL: [4, 8, 16, 32, 72], Size.QUICK: [4, 72], Size.TINY: [4]}
TOLERANCE = 1e-4
FEW = 8
"""Matrices: of more, the search of all orders takes long."""


def random_sizes(length: int, largest: int, least: int = 1) -> list[int]:
    """Evenly on a logarithmic scale."""
    bounds = np.log([least, largest])
    exponents = np.random.default_rng(length).uniform(*bounds, length + 1)
    return [int(size) for size in np.ceil(np.exp(exponents))]


def matrices(sizes: list[int]) -> Arrays:
    """Scaled, so that the product does not overflow."""
    shapes = list(pairwise(sizes))
    return {
        f"m{i:03}": normal(*shape, seed=i) / np.float32(shape[0] ** 0.5)
        for i, shape in enumerate(shapes)
    }


def chains(size: Size) -> Iterator[tuple[str, list[int]]]:
    largest = LARGEST[size]
    for length in LENGTHS[size]:
        yield f"{length} matrices, 1 to {largest:,}", random_sizes(length, largest)
    if size is Size.FULL:
        yield f"5 matrices, 500 to {largest:,}", random_sizes(5, largest, 500)
        square, small = largest // 2, largest // 10
        yield f"3 of {square:,} x {square:,}, and a vector", [square] * 4 + [1]
        yield f"10 of {small} x {small}", [small] * 11


def parts(length: int) -> list[Contender]:
    """What the product takes at least."""
    ordered = floor("XLA's products in their best order", "ordered_chain", "best_order")
    idle = floor("a call that multiplies nothing", "nothing")
    return [ordered, idle] if length <= FEW else [idle]


def cases(size: Size) -> Iterator[Case]:
    for name, sizes in chains(size):
        yield Case(
            name,
            "chain",
            [
                ours(LIMIT),
                plain(),
                Contender("numpy multi_dot", "numpy_chain", speed=1.0),
                Contender("opt_einsum", "opt_einsum_chain", speed=1.0),
                Contender("torch multi_dot", "torch_cpu", speed=1.0),
                *parts(len(sizes) - 1),
            ],
            partial(matrices, sizes),
            tolerance=TOLERANCE,
        )


if __name__ == "__main__":
    sys.exit(main(__doc__, cases))
