"""Time and peak as N grows 100 times at a fixed limit: time linear in the work, the peak flat.

Naive nearest neighbours of 1,000 queries (work: N), K v (work: N^2) and GPflow's SGPR with gradient
(work: N). Linear is where the share of the machine's best speed stays. The SGPR of N = 327, whose
values take a few MB, shows how much of the resident memory is the compiled program itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

from _contenders import ours
from frame.case import Case, Size, Work
from frame.command import main
from kernel_product import SE, arguments
from knn import NEIGHBOURS, points
from sgpr import flops, regression

LIMIT = 50_000_000
QUERIES, WIDTH, INDUCING = 1_000, 3, 200
STEPS = {Size.FULL: (1, 3, 10, 30, 100), Size.QUICK: (1, 10), Size.TINY: (1,)}


def cases(size: Size) -> Iterator[Case]:
    steps = STEPS[size]
    series = [
        (partial(search, 10_000), steps),
        (partial(product, 2_000), steps),
        (partial(model, 327), (1, *(10 * step for step in steps))),
    ]
    for case, multiples in series if size is Size.FULL else series[1:2]:
        for multiple in multiples:
            yield case(multiple)


def search(least: int, step: int) -> Case:
    count = least * step
    return Case(
        f"nearest neighbours, N = {count:,}",
        "knn",
        [ours(LIMIT)],
        partial(points, QUERIES, count, WIDTH),
        {"metric": "euclidean", "neighbours": NEIGHBOURS},
        least=Work(2.0 * QUERIES * count * WIDTH),
        series="nearest neighbours",
    )


def product(least: int, step: int) -> Case:
    count = least * step
    return Case(
        f"K v, N = {count:,}",
        "kernel_product",
        [ours(LIMIT)],
        partial(arguments, count, WIDTH, "float32"),
        {"name": SE},
        least=Work(2.0 * count**2 * (WIDTH + 1), float(count) ** 2),
        series="K v",
    )


def model(least: int, step: int) -> Case:
    count = least * step
    return Case(
        f"SGPR and gradient, N = {count:,}",
        "sgpr",
        [ours(LIMIT, "gpflow_models")],
        partial(regression, count, INDUCING),
        least=Work(flops(count, INDUCING), dtype="float64"),
        series="SGPR",
    )


if __name__ == "__main__":
    sys.exit(main(__doc__, cases))
