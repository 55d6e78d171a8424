"""Nearest neighbours in f64, and by L1 and cosine distances: twice as fast as scikit-learn.

2,000 queries, k = 10, naive code under 500 MB.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

from _contenders import floor, ours
from frame.agreement import different_neighbours
from frame.case import Case, Contender, Size
from frame.command import main
from knn import DIFFERENT, LIMIT, NEIGHBOURS, points

SIZES = {
    Size.FULL: (2_000, [(60_000, 100), (200_000, 3)]),
    Size.QUICK: (500, [(60_000, 20)]),
    Size.TINY: (20, [(500, 3)]),
}
SKLEARN = Contender("scikit-learn brute", "sklearn_brute", eager=True, speed=2.0)
MANY = 10
"""Coordinates: of fewer, distances are faster as differences than by products."""

PRODUCTS = floor("the inner products alone", "inner_products", block=500)
VARIANTS = (("euclidean", "float64"), ("manhattan", "float32"), ("cosine", "float32"))


def parts(metric: str, width: int) -> list[Contender]:
    """What distances need at least."""
    return [PRODUCTS] if metric == "euclidean" and width >= MANY else []


def cases(size: Size) -> Iterator[Case]:
    queries, sizes = SIZES[size]
    for metric, dtype in VARIANTS:
        for count, width in sizes:
            yield Case(
                f"{metric}, {dtype}, {count:,} x {width}",
                "knn",
                [ours(LIMIT), SKLEARN, *parts(metric, width)],
                partial(points, queries, count, width, dtype),
                {"metric": metric, "neighbours": NEIGHBOURS},
                agreement=different_neighbours,
                tolerance=DIFFERENT,
            )


if __name__ == "__main__":
    sys.exit(main(__doc__, cases))
