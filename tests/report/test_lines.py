"""Lines are the user's first; the library's that they called come second."""

from __future__ import annotations

import re

import gpflow
import numpy as np
import tensorflow as tf

from tests.programs import place_of
from tests.report.reports import shown
from tf_memsafe import Report, explain
from tf_memsafe.report import Tensor

COUNT, INDUCING = 500, 20
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(COUNT, 3)), RANDOM.normal(size=(COUNT, 1))


def tensors(report: Report) -> list[Tensor]:
    return [tensor for loop in report.loops for tensor in loop.tensors]


def test_gpflows_lines_are_second() -> None:
    model = gpflow.models.SGPR(
        (X, Y), gpflow.kernels.SquaredExponential(), X[:INDUCING].copy(), noise_variance=0.1
    )

    def loss() -> tf.Tensor:
        return model.training_loss()

    report = explain(loss, memory_limit="100kB")
    sources = [tensor.source for tensor in tensors(report) if tensor.source]
    assert sources
    assert {str(source) for source in sources} == {place_of(loss, "training_loss()")}
    assert any(source.library.startswith("gpflow/") for source in sources)
    assert all("site-packages" not in source.library for source in sources)
    user = shown(place_of(loss, "training_loss()"))
    assert re.search(rf"  {re.escape(user)}  in gpflow/\S+:\d+", str(report))
    assert " in gpflow/" in report.to_html()


def test_the_line_inside_of_a_nested_function_counts() -> None:
    @tf.function
    def distances(x: tf.Tensor) -> tf.Tensor:
        differences = x[:, None] - x[None]
        return tf.reduce_sum(differences**2, -1)

    @tf.function
    def similarities(x: tf.Tensor) -> tf.Tensor:
        return tf.exp(-distances(x))

    def total(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.linalg.matmul(similarities(x), x))

    report = explain(total, tf.TensorSpec([COUNT, 3]), memory_limit="100kB")
    places = {str(tensor.source) for tensor in tensors(report)}
    assert place_of(distances.python_function, "differences =") in places
    assert place_of(similarities.python_function, "tf.exp") in places
    assert all(not tensor.source.library for tensor in tensors(report) if tensor.source)
