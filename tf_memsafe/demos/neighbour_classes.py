"""Classes voted for by nearest neighbours, beside scikit-learn: a part of the knn demo."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import KNeighborsClassifier

from tf_memsafe.demos.console import say, table
from tf_memsafe.demos.distances import FORMS
from tf_memsafe.demos.flights import load_flights, standard_features
from tf_memsafe.demos.runs import HEADINGS, run

Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

METRICS = {"l2": "sqeuclidean", "dot": "sqeuclidean", "l1": "manhattan", "cosine": "cosine"}
"""What scikit-learn calls each form of the distance."""

TOLERANCES = {"float64": 1e-9, "float32": 1e-4}
"""Of the largest distance: what two neighbours may differ by and stand for one another."""


@dataclass(frozen=True)
class Classes:
    """Points [n, d] with a class [n] each, to learn from and to test on."""

    name: str
    train: tuple[Doubles, Integers]
    test: tuple[Doubles, Integers]


def naive_knn(neighbours: int, form: str = "l2") -> Any:
    """The search as a user writes it, naively: it builds the distance of each query to each point.

    The function takes queries [q, d] and points [p, d]; it returns the negated distances
    [q, neighbours] (nearest first) and the indices of those points (i32).
    """
    distance = FORMS[form]

    @tf.function(jit_compile=True)
    def knn(queries: tf.Tensor, points: tf.Tensor) -> Any:
        return tf.math.top_k(-distance(queries, points), neighbours)

    return knn


def digits(random: np.random.Generator) -> Classes:
    """scikit-learn's images of digits: two thirds to learn from, and the rest."""
    found = load_digits()
    return _split("digits", found.data, found.target, 2 * len(found.data) // 3, random)


def carriers(random: np.random.Generator, train: int, test: int) -> Classes:
    """Flights and who flew them."""
    flights = load_flights()
    rows = random.choice(len(flights), train + test, replace=False)
    labels = flights["carrier"].astype("category").cat.codes.to_numpy(np.int64)
    points = standard_features(flights).astype(np.float64)
    return _split("carriers of flights", points[rows], labels[rows], train, random)


def _split(
    name: str, points: Doubles, labels: Integers, train: int, random: np.random.Generator
) -> Classes:
    rows = random.permutation(len(points))
    learnt, tested = rows[:train], rows[train:]
    return Classes(name, (points[learnt], labels[learnt]), (points[tested], labels[tested]))


def classify(options: argparse.Namespace) -> dict[str, Any]:
    """Classifies digits and flights by each form of the distance, in f32 and in f64.

    Its answers are right if all neighbours are scikit-learn's, or as near as those.
    """
    random = np.random.default_rng(options.seed)
    sets = (
        digits(random),
        carriers(random, options.classified_points, options.classified_queries),
    )
    found = [
        row
        for each in sets
        for form in options.forms
        for row in _rows(each, form, options.neighbours)
    ]
    headings = ["classes", "distance", "dtype", "right", "scikit-learn", "same neighbours"]
    say("", table([[*headings, *HEADINGS], *(row.pop("cells") for row in found)]))
    return {"right": all(row["as_near"] for row in found), "runs": found}


def _rows(classes: Classes, form: str, neighbours: int) -> Iterator[dict[str, Any]]:
    """What one form of the distance finds in each dtype; "cells" is its row of the table."""
    (points, labels), (queries, expected) = classes.train, classes.test
    metric = METRICS[form]
    peer = KNeighborsClassifier(neighbours, algorithm="brute", metric=metric).fit(points, labels)
    theirs = peer.kneighbors(queries, return_distance=False)
    exact = pairwise_distances(queries, points, metric=metric)
    for dtype, tolerance in TOLERANCES.items():
        tensors = [tf.constant(each, dtype) for each in (queries, points)]
        message = f"{classes.name}, {form}, {dtype}"
        (_, ours), took = run(message, naive_knn(neighbours, form), *tensors)
        shares = {
            "accuracy": float(np.mean(vote(labels[ours]) == expected)),
            "peer_accuracy": float(peer.score(queries, expected)),
            "same": float(np.mean(ours == theirs)),
        }
        yield {
            "classes": classes.name,
            "form": form,
            "dtype": dtype,
            **shares,
            "as_near": as_near(exact, ours, theirs, tolerance),
            **asdict(took),
            "cells": [
                *(classes.name, form, dtype),
                *(f"{share:.2%}" for share in shares.values()),
                *took.cells(),
            ],
        }


def vote(labels: Integers) -> Integers:
    """The most frequent of each row's labels [n, k]; the smallest of those that are equally so."""
    votes = np.apply_along_axis(np.bincount, 1, labels, minlength=labels.max() + 1)
    winners: Integers = votes.argmax(1)
    return winners


def as_near(exact: Doubles, ours: Integers, theirs: Integers, tolerance: float) -> bool:
    """Whether two answers [n, k] hold points that are as near: neighbours that tie may swap.

    exact: all distances [n, points] in f64.
    """
    near = [np.take_along_axis(exact, indices, 1) for indices in (ours, theirs)]
    return bool(np.abs(np.sort(near[0]) - np.sort(near[1])).max() <= tolerance * exact.max())
