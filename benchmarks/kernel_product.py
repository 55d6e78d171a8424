"""A kernel matrix times a vector, naively, under 200 MB: 8 times KeOps's speed in f32 on a CPU.

And not slower than a loop over chunks that is written by hand. The matrix has N^2 entries; length
scales grow with the dimension, so that the entries do not vanish.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from _contenders import floor, jax_chunked, ours
from frame.case import Arrays, Case, Contender, Size, Work, normal
from frame.command import main

LIMIT = 200_000_000
SE, MATERN = "squared exponential", "Matern 3/2"
TOLERANCE = {"float32": 1e-4, "float64": 1e-9}

Spec = tuple[str, str, int, int]
"""The kernel, the dtype, N and D."""

SPECS: dict[Size, list[Spec]] = {
    Size.FULL: [
        (kernel, dtype, count, d)
        for count in (50_000, 200_000)
        for kernel in (SE, MATERN)
        for dtype in ("float32", "float64")
        for d in (1, 3, 10, 50)
    ],
    Size.QUICK: [(SE, "float32", 20_000, 3), (MATERN, "float64", 10_000, 10)],
    Size.TINY: [(MATERN, "float32", 300, 3)],
}
TIMEOUT = 25.0
"""Seconds: enough for KeOps, but in 50 dimensions."""

HIGH, LONGER = 50, 40.0
"""From so many dimensions on, KeOps has so many seconds."""

LARGE = 200_000
"""From this N on, KeOps would take minutes, 16 times what it takes for N = 50,000; what the others
take to compile is little beside a call."""

LARGE_TIMEOUT = 400.0
"""Seconds for a call at this N; ours take less."""


def arguments(count: int, width: int, dtype: str) -> Arrays:
    return {
        "x": normal(count, width, dtype=dtype),
        "lengthscales": np.full(width, width**0.5, dtype),
        "v": normal(count, 1, dtype=dtype, seed=1),
        "u": normal(count, 1, dtype=dtype, seed=2),
        "variance": np.array(1.5, dtype),
    }


def contenders(count: int, dtype: str) -> list[Contender]:
    keops = Contender("KeOps", "keops", eager=True, speed=8.0 if dtype == "float32" else None)
    partitions = Contender(
        "GPyTorch, checkpointed",
        "gpytorch_models",
        eager=True,
        speed=1.0,
        note="partitions of its kernel by hand, since its own were removed after version 1.10",
    )
    if count >= LARGE:
        return [replace(each, eager=True) for each in (ours(LIMIT), jax_chunked())]
    values = floor("the kernel's values alone", "kernel_values")
    return [ours(LIMIT), replace(jax_chunked(), eager=True), keops, partitions, values]


def timeout(count: int, width: int) -> float:
    if count >= LARGE:
        return LARGE_TIMEOUT
    return TIMEOUT if width < HIGH else LONGER


def cases(size: Size) -> Iterator[Case]:
    for kernel, dtype, count, width in SPECS[size]:
        yield Case(
            f"{kernel}, {dtype}, N = {count:,}, D = {width}",
            "kernel_product",
            contenders(count, dtype),
            partial(arguments, count, width, dtype),
            {"name": kernel},
            tolerance=TOLERANCE[dtype],
            timeout=timeout(count, width),
            rounds=3,
            least=Work(2.0 * count**2 * (width + 1), float(count) ** 2, dtype=dtype),
        )


if __name__ == "__main__":
    sys.exit(main(__doc__, cases))
