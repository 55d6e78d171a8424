"""Paired timings: the two sides take turns, so that what disturbs one disturbs the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import tensorflow as tf


class Paired(NamedTuple):
    """Median seconds of each side, and the median over the rounds of ours / theirs."""

    ours: float
    theirs: float
    ratio: float


def paired(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> Paired:
    """Times both, one after the other, `rounds` times, after a first call of each."""
    wait(ours()), wait(theirs())
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
    ratios = [a / b for a, b in pairs]
    return Paired(median(a for a, _ in pairs), median(b for _, b in pairs), median(ratios))


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    wait(call())
    return time.perf_counter() - start


def wait(result: Any) -> None:
    """Returns when the tensors of a result are there."""
    for leaf in tf.nest.flatten(result):
        if tf.is_tensor(leaf):
            leaf.numpy()
