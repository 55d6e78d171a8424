"""tf.math along axes: reductions, scans, order, segments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.corpus.calls import (
    boolean,
    brain,
    call,
    complex_,
    double,
    gradients_of,
    half,
    integer,
    real,
    value,
    words,
)

REDUCTIONS = words(
    "reduce_euclidean_norm reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod"
    " reduce_std reduce_sum reduce_variance"
)


def _rows(name: str) -> Callable[..., Any]:
    reduction = getattr(tf.math, name)
    return lambda x: reduction(x, 1, keepdims=True)


BASE = [
    *(call(f"{name} of a matrix", getattr(tf.math, name), real(5, 7)) for name in REDUCTIONS),
    *(call(f"{name} of rows", _rows(name), double(5, 7)) for name in REDUCTIONS),
    call("reduce_sum f16", lambda x: tf.reduce_sum(x, 0), half(5, 7)),
    call("reduce_mean bf16", lambda x: tf.reduce_mean(x, 1), brain(5, 7)),
    call("reduce_sum i32", lambda x: tf.reduce_sum(x, [0, 2]), integer(2, 3, 4)),
    call("reduce_max i64", lambda x: tf.reduce_max(x, 1), integer(5, 7, dtype=np.int64)),
    call("reduce_sum c64", lambda x: tf.reduce_sum(x, 0), complex_(5, 7)),
    call("reduce_any", lambda x: tf.reduce_any(x, 0), boolean(5, 7)),
    call("reduce_all", tf.reduce_all, boolean(5, 7)),
    call("reduce_sum of nothing", lambda x: tf.reduce_sum(x, 1), real(5, 0)),
    call("count_nonzero", tf.math.count_nonzero, integer(5, 7, high=2)),
    call("argmax", lambda x: tf.argmax(x, 1), real(5, 7)),
    call("argmin i32", lambda x: tf.argmin(x, 0, tf.int32), integer(5, 7)),
    call("l2_normalize", lambda x: tf.math.l2_normalize(x, 1), real(5, 7)),
    call("zero_fraction", tf.math.zero_fraction, integer(9, high=2)),
    call("cumsum", lambda x: tf.cumsum(x, 1), real(5, 7)),
    call("cumsum, exclusive and reversed", lambda x: tf.cumsum(x, 0, True, True), integer(5, 7)),
    call("cumprod", lambda x: tf.math.cumprod(x, 1), double(5, 7)),
    call("cumulative_logsumexp", tf.math.cumulative_logsumexp, real(9)),
    call("top_k", lambda x: tf.math.top_k(x, 3), real(5, 9)),
    call("top_k f64", lambda x: tf.math.top_k(x, 3), double(5, 9)),
    call("top_k i32, equal values", lambda x: tf.math.top_k(x, 4), integer(5, 9, high=4)),
    call("approx_max_k", lambda x: tf.math.approx_max_k(x, 3), real(5, 9)),
    call("in_top_k", lambda p, t: tf.math.in_top_k(t, p, 2), real(5, 4), integer(5, high=4)),
    call("sort", tf.sort, real(5, 7)),
    call("sort, descending axis 0", lambda x: tf.sort(x, 0, "DESCENDING"), double(5, 7)),
    call("sort i32", tf.sort, integer(5, 7)),
    call("argsort", lambda x: tf.argsort(x, stable=True), integer(5, 7)),
    call(
        "unsorted_segment_sum",
        lambda x, i: tf.math.unsorted_segment_sum(x, i, 4),
        real(9, 2),
        integer(9, high=4),
    ),
    call(
        "unsorted_segment_max",
        lambda x, i: tf.math.unsorted_segment_max(x, i, 4),
        double(9),
        integer(9, high=4),
    ),
    call(
        "unsorted_segment_mean",
        lambda x, i: tf.math.unsorted_segment_mean(x, i, 4),
        real(9),
        integer(9, high=4),
    ),
    call(
        "unsorted_segment_prod",
        lambda x, i: tf.math.unsorted_segment_prod(x, i, 4),
        real(9),
        integer(9, high=4),
    ),
    call("segment_sum", tf.math.segment_sum, real(4), value([0, 0, 1, 1], np.int32)),
    call("bincount", lambda x: tf.math.bincount(x, minlength=8, maxlength=8), integer(9)),
    call(
        "confusion_matrix",
        lambda x, y: tf.math.confusion_matrix(x, y, 4),
        integer(9, high=4),
        integer(9, high=4),
    ),
    call("histogram", lambda x: tf.histogram_fixed_width(x, [0.0, 1.0], 4), real(9)),
    call("searchsorted", lambda x, y: tf.searchsorted(tf.sort(x), y), real(9), real(4)),
    call("unique", tf.unique, integer(9), unsupported="set-dimension-size"),
    call(
        "is_strictly_increasing",
        tf.math.is_strictly_increasing,
        real(4),
        unsupported="set-dimension-size",
    ),
]

WITH_GRADIENT = (
    "reduce_prod of rows; reduce_logsumexp of rows; reduce_max of rows; reduce_std of rows;"
    " reduce_variance of a matrix; reduce_euclidean_norm of a matrix; l2_normalize; cumsum;"
    " cumprod; cumulative_logsumexp; top_k; sort; unsorted_segment_sum; unsorted_segment_max;"
    " unsorted_segment_mean"
)
CALLS = [*BASE, *gradients_of(BASE, WITH_GRADIENT)]
