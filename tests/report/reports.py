"""Functions of this file, and reports on them."""

from __future__ import annotations

from functools import cache

import tensorflow as tf

from tests.programs import COUNT, LIMIT
from tf_memsafe import Report, explain
from tf_memsafe.report import text
from tf_memsafe.source import SourceLine

F64 = tf.float64
SPECS = [tf.TensorSpec([COUNT, 3], F64), tf.TensorSpec([COUNT, 4], F64)]


def kernel(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    """Needs 89 kB, and fits when it is cut."""
    distances = tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)
    near = tf.cast(distances < 1, F64)
    return (near * tf.exp(-distances)) @ v


def chain(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    """Is rewritten, and looks like what is not."""
    distances = tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)
    similarities = tf.exp(-distances)
    return (similarities @ similarities) @ v


def factor(x: tf.Tensor) -> tf.Tensor:
    """Cannot be cut."""
    covariance = x @ tf.transpose(x)
    return tf.linalg.cholesky(covariance)


@cache
def cut() -> Report:
    return explain(kernel, *SPECS, memory_limit=LIMIT)


@cache
def rewritten() -> Report:
    return explain(chain, *SPECS, memory_limit=LIMIT)


@cache
def blocked() -> Report:
    return explain(factor, SPECS[0], memory_limit=LIMIT)


@cache
def fitting() -> Report:
    return explain(kernel, *SPECS, memory_limit="1MB")


@cache
def too_large_to_compile() -> Report:
    return explain(factor, tf.TensorSpec([200_000, 3]), memory_limit="1GB")


def shown(place: str) -> str:
    """A place in a file as a report's text has it."""
    file, _, line = place.rpartition(":")
    return text.place(SourceLine(file, int(line), ""))
