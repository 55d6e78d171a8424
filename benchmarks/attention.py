"""Softmax attention, forward and gradient, naively, under 500 MB: not slower than uncut.

8 heads of size 64, f32. Uncut, T = 2,000 is the longest of these that fits into 500 MB; the target
is one 8 times as long.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

from _contenders import jax_chunked, ours, plain
from frame.case import Arrays, Case, Contender, Size, Work, normal
from frame.command import main

LIMIT = 500_000_000
HEADS, WIDTH = 8, 64
LENGTHS = {
    Size.FULL: [2_000, 4_000, 8_000, 16_000],
    Size.QUICK: [2_000],
    Size.TINY: [100],
}
TOLERANCE = 1e-3


def sequences(length: int) -> Arrays:
    names = ("queries", "keys", "values")
    return {name: normal(HEADS, length, WIDTH, seed=i) for i, name in enumerate(names)}


def cases(size: Size) -> Iterator[Case]:
    for length in LENGTHS[size]:
        scores = HEADS * length**2
        yield Case(
            f"T = {length:,}",
            "attention",
            [
                ours(LIMIT),
                plain(),
                Contender("PyTorch SDPA", "torch_cpu", eager=True),
                jax_chunked(speed=None),
            ],
            partial(sequences, length),
            tolerance=TOLERANCE,
            # Two products forward, four backward and, since no score is kept, one again.
            least=Work(14.0 * scores * WIDTH, 2.0 * scores),
        )


if __name__ == "__main__":
    sys.exit(main(__doc__, cases))
