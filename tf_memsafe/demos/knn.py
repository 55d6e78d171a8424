"""Nearest neighbours, found naively, under a memory limit.

Three parts:

  flights   the flights most like each of 20,000 flights, among the 336,776 that left New York City
            in 2013, compared by month, day, departure, arrival and distance
  classes   scikit-learn's digits, and the carriers of flights, told by their neighbours: four forms
            of the distance in f32 and f64, beside scikit-learn's brute force
  sweep     peak and time of each form of the distance, for more and more points

Run them with

  python -m tf_memsafe.demos.knn --memory-limit 1GB
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import tensorflow as tf
from matplotlib.figure import Figure

import tf_memsafe
from tf_memsafe.demos import arguments, figures
from tf_memsafe.demos.console import Cost, measure, progress, say, table
from tf_memsafe.demos.distances import FORMS
from tf_memsafe.demos.flights import FLIGHTS, load_flights, standard_features
from tf_memsafe.demos.neighbour_classes import classify, naive_knn
from tf_memsafe.demos.runs import HEADINGS, Run, run
from tf_memsafe.limits import format_bytes

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]

PARTS = ("flights", "classes", "sweep")
SHOWN_QUERIES, SHOWN_NEIGHBOURS, CHECKED_QUERIES = 3, 3, 50


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


def main(given: Sequence[str] | None = None) -> int:
    """Runs the parts, prints what they took and checks them; returns what `arguments.run` does."""
    parser = arguments.parser("knn", __doc__)
    count = arguments.positive
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to run"
    )
    parser.add_argument("--queries", type=count, default=20_000, help="flights to search for")
    parser.add_argument("--points", type=count, default=FLIGHTS, help="flights to search in")
    parser.add_argument("--neighbours", type=count, default=10, help="to find for each")
    parser.add_argument(
        "--forms", nargs="+", choices=FORMS, default=list(FORMS), help="of the distance"
    )
    parser.add_argument("--classified-points", type=count, default=20_000, help="to learn from")
    parser.add_argument("--classified-queries", type=count, default=2_000, help="to tell")
    parser.add_argument(
        "--sweep-points", type=count, nargs="+", default=[10_000, 30_000, 100_000, 300_000]
    )
    parser.add_argument("--sweep-queries", type=count, default=2_000, help="in each search")
    options = parser.parse_args(given)
    if options.points > FLIGHTS:
        parser.error(f"--points must be from 1 to {FLIGHTS}")
    if max(options.queries, options.neighbours) > options.points:
        parser.error("--queries and --neighbours must not be more than --points")
    return arguments.run(_demo, parser, given)


def _demo(options: argparse.Namespace) -> dict[str, Any]:
    tf.get_logger().setLevel("ERROR")  # it warns of many traces, but each size needs its own
    parts = {"flights": _search, "classes": classify, "sweep": _sweep}
    found = {name: parts[name](options) for name in PARTS if name in options.parts}
    return {"right": all(part["right"] for part in found.values()), **found}


def _search(options: argparse.Namespace) -> dict[str, Any]:
    random = np.random.default_rng(options.seed)
    everything = load_flights()
    rows = np.sort(random.choice(FLIGHTS, options.points, replace=False))
    flights, points = everything.iloc[rows], standard_features(everything)[rows]
    chosen = random.choice(options.points, options.queries, replace=False)
    say(_intention(options))

    knn, tensors = naive_knn(options.neighbours), (tf.constant(points[chosen]), tf.constant(points))
    with progress("Searching"):
        (values, indices), cost = measure(lambda: [part.numpy() for part in knn(*tensors)])
    report = tf_memsafe.explain(knn, *tensors)

    sample = random.choice(options.queries, min(CHECKED_QUERIES, options.queries), replace=False)
    right = all(
        is_nearest(points[chosen[row]], points, values[row], indices[row]) for row in sample
    )
    say(f"\n{report}\n\n{_examples(flights, chosen, values, indices)}\n")
    say(_summary(report, cost, len(sample), right), "")
    took = Run(report.peak_before, report.peak_after, cost.resident, cost.seconds)
    return {"right": right, "runs": [asdict(took)]}


def _sweep(options: argparse.Namespace) -> dict[str, Any]:
    """Searches more and more flights by each form of the distance; it has nothing to check."""
    random = np.random.default_rng(options.seed)
    everything = standard_features(load_flights())
    queries = tf.constant(everything[random.choice(FLIGHTS, options.sweep_queries)])
    rows, runs = [["points", "distance", *HEADINGS]], []
    for count in options.sweep_points:
        points = tf.constant(everything[random.choice(FLIGHTS, count, replace=count > FLIGHTS)])
        for form in options.forms:
            message = f"{form} distances to {count:,} flights"
            _, took = run(message, naive_knn(options.neighbours, form), queries, points)
            runs.append({"form": form, "points": count, **asdict(took)})
            rows.append([f"{count:,}", form, *took.cells()])
    say("", table(rows), "")
    figures.save(draw(runs), options.figure)
    return {"right": True, "runs": runs}


def draw(runs: Sequence[dict[str, Any]]) -> Figure:
    """Peak and time by the number of points, of the runs of the part "sweep"."""
    figure, (left, right) = figures.panels(2, "Nearest neighbours of flights, found naively")
    for place, form in enumerate(FORMS):
        own = [each for each in runs if each["form"] == form]
        points = [each["points"] for each in own]
        left.loglog(points, [each["peak_before"] for each in own], f"C{place}:", marker="o")
        left.loglog(points, [each["peak_after"] for each in own], f"C{place}-", marker="o")
        right.loglog(points, [each["seconds"] for each in own], "o-", label=form)
    figures.mark_limit(left, tf_memsafe.get_memory_limit())
    left.plot([], [], "k:", label="as written")
    left.plot([], [], "k-", label="under the limit")
    left.set(xlabel="flights searched", ylabel="peak")
    figures.show_bytes(left)
    left.legend()
    right.set(xlabel="flights searched", ylabel="seconds, compilation included")
    right.legend()
    return figure


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


if __name__ == "__main__":
    sys.exit(main())
