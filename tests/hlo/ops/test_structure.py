"""Parameters, constants, views, reductions and control flow: what every program has."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.ops.makers import binary, emit, floats, with_region
from tests.hlo.ops.refusing import assert_refused
from tests.hlo.running import names, random_array, same_as_tensorflow
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.types import TensorType

X = random_array(floats(4, 6), 0)


def test_views() -> None:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        return [
            tf.transpose(x) + tf.range(4.0),
            tf.reverse(x, [1])[:, 1:4],
            tf.pad(x, [[1, 0], [2, 3]]),
            tf.concat([x, x], 1),
            tf.tile(x[:, None], [1, 3, 1]),
        ]

    expected = {"transpose", "reverse", "slice", "pad", "concatenate", "broadcast_in_dim"}
    assert expected <= names(same_as_tensorflow(function, X))


def test_reductions() -> None:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        return [tf.reduce_sum(x, 0), tf.reduce_max(x), tf.argmax(x, 1), tf.reduce_any(x > 1, 1)]

    assert {"reduce", "get_tuple_element", "iota"} <= names(same_as_tensorflow(function, X))


def test_control_flow() -> None:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        branches = [lambda: x, lambda: x + 1, lambda: x * 2]
        return [
            tf.switch_case(tf.cast(x[0, 0], tf.int32), branches),
            tf.cond(x[0, 0] > 0, lambda: x, lambda: -x),
            tf.scan(lambda a, b: a + b, x),
            tf.recompute_grad(tf.sin)(x),
        ]

    assert {"if", "case", "while"} <= names(same_as_tensorflow(function, X))


@pytest.mark.parametrize(
    ("make", "types"),
    [
        (emit("reshape", type=floats(5)), (floats(4),)),
        (emit("reshape"), (floats(4),)),
        (emit("broadcast_in_dim", broadcast_dimensions=(0,), type=floats(5)), (floats(4),)),
        (emit("slice", start_indices=(0,), limit_indices=(9,), strides=(1,)), (floats(4),)),
        (with_region("reduce", binary("add"), dimensions=(0,)), (floats(4),)),
    ],
)
def test_refuses(make: Callable[..., Node], types: tuple[TensorType, ...]) -> None:
    assert_refused(make, types)


def test_an_empty_tensor_is_a_tensor() -> None:
    same_as_tensorflow(
        lambda x: [tf.reduce_sum(x, 1), tf.concat([x, x], 0)], np.zeros((3, 0), np.float32)
    )
