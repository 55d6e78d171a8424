"""Convolutions, windows and batch normalisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.corpus.calls import gradient
from tests.hlo.ops.makers import (
    binary,
    comparator,
    convolution,
    dilations,
    emit,
    floats,
    integers,
    window,
    with_region,
)
from tests.hlo.ops.refusing import assert_refused
from tests.hlo.running import names, same_as_tensorflow
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.ops.normalization import F32
from tf_memsafe.hlo.types import TensorType

GENERATOR = np.random.default_rng(0)
IMAGE = GENERATOR.normal(size=(2, 6, 7, 3)).astype(np.float32)
KERNEL = GENERATOR.normal(size=(3, 2, 3, 4)).astype(np.float32)
POOL = with_region("reduce_window", binary("add"), **window((1, 2), (1, 2)), **dilations(2))
CHOOSE = with_region(
    "select_and_scatter", comparator("GE", "f32"), binary("add"), **window((1, 2), (1, 2))
)
NORMALIZE: dict[str, Any] = {"epsilon": F32(0.001), "feature_index": 1}


def test_convolution_and_its_gradients() -> None:
    def convolve(x: tf.Tensor, k: tf.Tensor) -> tf.Tensor:
        return tf.nn.conv2d(x, k, [1, 2], [[0, 0], [1, 0], [2, 3], [0, 0]])

    def function(x: tf.Tensor, k: tf.Tensor) -> list[tf.Tensor]:
        dilated = tf.nn.conv2d(x, k, 1, "VALID", dilations=2)
        return [convolve(x, k), dilated, *gradient(convolve)(x, k)]

    assert "convolution" in names(same_as_tensorflow(function, IMAGE, KERNEL))


def test_grouped_convolution_and_its_gradients() -> None:
    def convolve(x: tf.Tensor, k: tf.Tensor) -> tf.Tensor:
        return tf.nn.depthwise_conv2d(x, k, [1, 1, 1, 1], "SAME")

    same_as_tensorflow(lambda x, k: [convolve(x, k), *gradient(convolve)(x, k)], IMAGE, KERNEL)


def test_pools_and_their_gradients() -> None:
    def pools(x: tf.Tensor) -> list[tf.Tensor]:
        return [tf.nn.max_pool2d(x, 2, 2, "SAME"), tf.nn.avg_pool2d(x, 3, 2, "VALID")]

    found = names(same_as_tensorflow(lambda x: [*pools(x), *gradient(pools)(x)], IMAGE))
    assert {"reduce_window", "select_and_scatter"} <= found


def test_cumulative_sums_are_windows() -> None:
    assert "reduce_window" in names(same_as_tensorflow(lambda x: tf.cumsum(x, 2), IMAGE))


def test_batch_normalisation() -> None:
    normalize = tf.compat.v1.nn.fused_batch_norm

    def train(x: tf.Tensor, s: tf.Tensor) -> tf.Tensor:
        return normalize(x, s, s)[0]

    def function(x: tf.Tensor, s: tf.Tensor) -> list[tf.Tensor]:
        used = normalize(x, s, s, s, s, is_training=False)[0]
        return [train(x, s), used, *gradient(train)(x, s)]

    found = names(same_as_tensorflow(function, IMAGE, np.array([1, 2, 3], np.float32)))
    assert {"batch_norm_training", "batch_norm_inference", "batch_norm_grad"} <= found


@pytest.mark.parametrize(
    ("make", "types"),
    [
        (emit("convolution", **convolution()), (floats(4, 5, 6, 2), floats(3, 2, 3, 4))),
        (emit("convolution", **convolution()), (floats(4, 5, 6, 2),)),
        (POOL, (floats(4, 6),)),
        (POOL, (floats(4, 6), floats(1))),
        (CHOOSE, (floats(4, 6), floats(4, 2), floats())),
        (CHOOSE, (floats(4, 6), floats(4, 3), integers())),
        (CHOOSE, (floats(4, 6), floats(4, 3))),
        (emit("batch_norm_training", **NORMALIZE), (floats(5, 3), floats(3), floats(5))),
        (emit("batch_norm_inference", **NORMALIZE), (floats(5, 3), floats(3))),
        (
            emit("batch_norm_grad", **NORMALIZE),
            (floats(5, 3), floats(3), floats(3), floats(3), floats(4, 3)),
        ),
    ],
)
def test_refuses(make: Callable[..., Node], types: tuple[TensorType, ...]) -> None:
    assert_refused(make, types)
