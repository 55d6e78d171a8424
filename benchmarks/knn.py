"""Nearest neighbours, naively, under 500 MB: not slower than what people use instead.

2,000 queries, k = 10, f32, squared Euclidean distance. At D = 3 the target is 1.5 times faster.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

from _contenders import jax_chunked, ours, plain
from frame.agreement import different_neighbours
from frame.case import Arrays, Case, Contender, Size, Work, normal
from frame.command import main

LIMIT = 500_000_000
NEIGHBOURS = 10
DIFFERENT = 5e-4
"""The share of neighbours that may differ: f32 rounds ties at the tenth place either way."""

SIZES = {
    Size.FULL: (2_000, [(60_000, 784), (200_000, 100), (200_000, 3), (10**6, 100), (10**6, 3)]),
    Size.QUICK: (500, [(60_000, 100), (200_000, 3)]),
    Size.TINY: (20, [(500, 3)]),
}


def points(queries: int, count: int, width: int, dtype: str = "float32") -> Arrays:
    return {
        "points": normal(count, width, dtype=dtype),
        "queries": normal(queries, width, dtype=dtype, seed=1),
    }


def cases(size: Size) -> Iterator[Case]:
    queries, sizes = SIZES[size]
    for count, width in sizes:
        speed = 1.5 if width == 3 else 1.0
        yield Case(
            f"{count:,} x {width}",
            "knn",
            [
                ours(LIMIT),
                Contender("FAISS IndexFlatL2", "faiss_flat", eager=True, speed=speed),
                Contender("scikit-learn brute", "sklearn_brute", eager=True, speed=speed),
                jax_chunked(speed),
                plain(),
            ],
            partial(points, queries, count, width),
            {"metric": "euclidean", "neighbours": NEIGHBOURS},
            agreement=different_neighbours,
            tolerance=DIFFERENT,
            least=Work(flops=2.0 * queries * count * width, bytes=4.0 * count * width),
        )


if __name__ == "__main__":
    sys.exit(main(__doc__, cases))
