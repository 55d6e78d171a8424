"""Tensors are called what the user's code makes them, loops' sums and constants among them."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.programs import place_of
from tf_memsafe import Report, explain
from tf_memsafe.report import Tensor

COUNT, WIDTH = 2000, 80
TABLE = np.random.default_rng(0).normal(size=(WIDTH, WIDTH))


def gram(x: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
    near = tf.exp(-tf.reduce_sum((x[:, None] - z[None]) ** 2, -1))
    products = tf.matmul(near, near, transpose_a=True)
    return tf.linalg.cholesky(products + tf.constant(TABLE))


def report() -> Report:
    specs = [tf.TensorSpec([size, 3], tf.float64) for size in (COUNT, WIDTH)]
    return explain(gram, *specs, memory_limit="400kB")


def test_what_a_loop_sums_and_large_constants_have_the_users_lines() -> None:
    found = report()
    assert found.loops
    sums: list[Tensor] = [each for each in found.left if each.shape == (WIDTH, WIDTH)]
    assert sums
    assert all(each.source is not None for each in sums), sums
    places = {str(each.source) for each in sums}
    assert place_of(gram, "products =") in places
    assert place_of(gram, "TABLE") in places
    assert not any(each.op.startswith("argument") for each in sums)


def test_what_programs_share_has_no_line() -> None:
    def zeros(x: tf.Tensor) -> tf.Tensor:
        return tf.sort(tf.reshape(x[:, None] * x[None], [-1])) + tf.zeros([COUNT**2])

    tensors = explain(zeros, tf.TensorSpec([COUNT]), memory_limit="1GB").largest
    assert all(each.source is None for each in tensors if each.op in ("constant", "iota"))
