"""Arguments and results in every form, and functions that are called with many shapes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import LIMIT, assert_same, compiled, kernel, points_and_weights
from tf_memsafe.executable import Executable
from tf_memsafe.hook import MOST_KNOWN

Runs = list[Executable]
Make = Callable[..., Any]

BOTH = pytest.mark.parametrize("made", [tf.function, compiled], ids=["plain", "compiled"])
"""Functions without `jit_compile=True`, and with it."""


class Pair(NamedTuple):
    x: tf.Tensor
    v: tf.Tensor


@dataclass
class Data:
    x: tf.Tensor
    v: tf.Tensor

    def __tf_flatten__(self) -> tuple[tuple[()], tuple[tf.Tensor, tf.Tensor]]:
        return (), (self.x, self.v)

    @classmethod
    def __tf_unflatten__(cls, _: tuple[()], parts: tuple[tf.Tensor, tf.Tensor]) -> Data:
        return cls(*parts)


@BOTH
@pytest.mark.parametrize("form", [Pair, Data])
def test_structures_in_and_out(made: Make, form: Any, rewritten_runs: Runs) -> None:
    def function(data: Any) -> Any:
        y = kernel(data.x, data.v)
        return form(y, 2 * y), {"of": data.v}

    traced, given = made(function), form(*points_and_weights())
    expected = traced(given)
    with tf_memsafe.memory_limit(LIMIT):
        found = traced(given)
    assert type(found[0]) is form
    assert_same((found[0].x, found[0].v, found[1]), (expected[0].x, expected[0].v, expected[1]))
    assert len(rewritten_runs) == 1


@BOTH
def test_python_values_among_the_arguments(made: Make, rewritten_runs: Runs) -> None:
    def function(x: tf.Tensor, v: tf.Tensor, power: int, name: str, skip: None, **more: Any) -> Any:
        y = kernel(x, v) ** power
        return y * more["scale"] if name == "scaled" else (y if skip is None else x)

    traced, (x, v) = made(function), points_and_weights()
    with tf_memsafe.memory_limit(LIMIT):
        assert_same(traced(x, v, 2, "scaled", None, scale=3.0), 3 * kernel(x, v) ** 2)
        assert_same(traced(x, v, 2, "plain", None), kernel(x, v) ** 2)
    assert len(rewritten_runs) == 2


@BOTH
def test_partial_functions_and_defaults(made: Make, rewritten_runs: Runs) -> None:
    def function(x: tf.Tensor, v: tf.Tensor, scale: float = 2.0) -> tf.Tensor:
        return scale * kernel(x, v)

    x, v = points_and_weights()
    with tf_memsafe.memory_limit(LIMIT):
        assert_same(made(functools.partial(function, scale=3.0))(x, v), 3 * kernel(x, v))
        assert_same(made(function)(x, v), 2 * kernel(x, v))
    assert len(rewritten_runs) == 2


@BOTH
def test_ragged_and_sparse_arguments(made: Make) -> None:
    def function(ragged: tf.RaggedTensor, sparse: tf.SparseTensor, x: tf.Tensor, v: Any) -> Any:
        total = tf.reduce_sum(ragged.values) + tf.reduce_sum(sparse.values)
        return total * kernel(x, v)

    x, v = points_and_weights()
    ragged = tf.ragged.constant([[1.0], [2.0, 3.0]], tf.float64)
    sparse = tf.sparse.from_dense(tf.constant([[0.0, 4.0]], tf.float64))
    with tf_memsafe.memory_limit(LIMIT):
        assert_same(made(function)(ragged, sparse, x, v), 10 * kernel(x, v))


@BOTH
def test_many_shapes_are_worth_a_warning(made: Make) -> None:
    signature = [tf.TensorSpec([None, 3], tf.float64), tf.TensorSpec([None, 4], tf.float64)]
    function, (x, v) = made(kernel, input_signature=signature), points_and_weights()
    with tf_memsafe.memory_limit("1GB"):
        for rows in range(1, MOST_KNOWN + 1):
            function(x[:rows], v[:rows])
        with pytest.warns(
            tf_memsafe.MemorySafetyWarning, match=f"kernel for more than {MOST_KNOWN} shapes"
        ):
            found = function(x[: MOST_KNOWN + 1], v[: MOST_KNOWN + 1])
    np.testing.assert_allclose(found, kernel(x[: MOST_KNOWN + 1], v[: MOST_KNOWN + 1]))
