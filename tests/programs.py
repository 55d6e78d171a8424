"""Naive programs that are too large for a small limit until they are cut, and their arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

LIMIT = 40_000
"""Bytes: `kernel` of POINTS needs 89 kB as it is written, 80 kB of them for the matrix."""

COUNT = 100
POINTS = np.random.default_rng(0).normal(size=(COUNT, 3))
WEIGHTS = np.random.default_rng(1).normal(size=(COUNT, 4))


def kernel(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    """The Gaussian kernel matrix of the rows of x, times v."""
    distances = tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)
    return tf.exp(-distances) @ v


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """Without autograph, which takes long, unless asked for."""
    return tf.function(function, **{"jit_compile": True, "autograph": False, **options})


def tensors(*arrays: np.ndarray) -> list[tf.Tensor]:
    return [tf.constant(array) for array in arrays]


def points_and_weights() -> list[tf.Tensor]:
    """New tensors of POINTS and WEIGHTS, in f64."""
    return tensors(POINTS, WEIGHTS)


def assert_same(found: Any, expected: Any) -> None:
    """Asserts that two results have the same structure, types and, but for rounding, numbers."""
    tf.nest.assert_same_structure(found, expected)
    parts = (tf.nest.flatten(value, expand_composites=True) for value in (found, expected))
    for one, other in zip(*parts, strict=True):
        if one is None or other is None:
            assert one is other
        else:
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-10, atol=1e-12)


def place_of(function: Callable[..., Any], code: str) -> str:
    """The file and line of a piece of a function's code, as reports have them."""
    lines, first = inspect.getsourcelines(function)
    (offset,) = [index for index, line in enumerate(lines) if code in line]
    return f"{inspect.getsourcefile(function)}:{first + offset}"


def gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function's value, summed, and its gradient to each argument."""

    def value_and_gradients(*arguments: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            value = tf.reduce_sum(function(*arguments))
        return [value, *tape.gradient(value, arguments)]

    return value_and_gradients
