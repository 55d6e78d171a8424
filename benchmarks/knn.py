"""Naive nearest neighbours under 500 MB against FAISS's IndexFlatL2: 2,000 queries, k = 10, f32.

The two take turns in one process, and have to find the same neighbours. FAISS is timed without the
copy of the points that its index makes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
import tensorflow as tf
from _timing import paired

import tf_memsafe

LIMIT = 500_000_000
QUERIES, NEIGHBOURS = 2_000, 10
SIZES = ((60_000, 784), (200_000, 100), (200_000, 3), (1_000_000, 3), (1_000_000, 100))
SAME = 0.9999
"""The share of neighbours that have to agree: f32 rounds ties at the tenth place either way."""


@tf.function(jit_compile=True)
def nearest(queries: tf.Tensor, points: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    distances = tf.reduce_sum((queries[:, None, :] - points[None, :, :]) ** 2, -1)
    return tf.math.top_k(-distances, NEIGHBOURS)


def searches(count: int, width: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Ours and FAISS's search; each returns squared distances and indices."""
    generator = np.random.default_rng(0)
    points = generator.normal(size=(count, width)).astype(np.float32)
    queries = generator.normal(size=(QUERIES, width)).astype(np.float32)
    index = faiss.IndexFlatL2(width)
    index.add(points)
    tensors = tf.constant(queries), tf.constant(points)
    return lambda: nearest(*tensors), lambda: index.search(queries, NEIGHBOURS)


def measure(count: int, width: int, rounds: int) -> str:
    """A line of the table: peak, both times, their ratio, and the neighbours in common."""
    ours, theirs = searches(count, width)
    spec = [tf.TensorSpec(shape, tf.float32) for shape in ((QUERIES, width), (count, width))]
    report = tf_memsafe.explain(nearest, *spec, memory_limit=LIMIT)
    times = paired(ours, theirs, rounds)
    common = np.mean(np.sort(ours()[1].numpy()) == np.sort(theirs()[1]))
    assert common >= SAME, f"only {common:.2%} of the neighbours are FAISS's"
    return (
        f"{count:>9,} x {width:<5}{report.peak_before / 1e6:>12,.0f}{report.peak_after / 1e6:>8.0f}"
        f"{times.ours:>9.3f}{times.theirs:>9.3f}{times.ratio:>8.2f}{common:>10.4%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each is timed")
    parser.add_argument("--only", type=int, help="the row of this number, from 0 on")
    options = parser.parse_args()
    tf_memsafe.set_memory_limit(LIMIT)
    sizes, times = f"{'MB before':>12}{'after':>8}", f"{'s ours':>9}{'FAISS':>9}"
    print(f"{'points':17}{sizes}{times}{'ratio':>8}{'same':>10}")
    rows = SIZES if options.only is None else SIZES[options.only : options.only + 1]
    for count, width in rows:
        print(measure(count, width, options.rounds), flush=True)


if __name__ == "__main__":
    main()
