"""dynamic_slice, dynamic_update_slice, gather and scatter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.ops.makers import (
    binary,
    emit,
    floats,
    gather,
    integers,
    scatter,
    with_region,
)
from tests.hlo.ops.refusing import assert_refused
from tests.hlo.running import names, same_as_tensorflow
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.types import TensorType

X = np.arange(24, dtype=np.float32).reshape(4, 6)
INDICES = np.array([3, 0, 9, 2], np.int32)  # one is out of bounds
ROWS = (1,), (0,), (), (), (0,), 1


def test_dynamic_slices() -> None:
    def function(x: tf.Tensor, i: tf.Tensor) -> list[tf.Tensor]:
        def step(n: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return n + 1, tf.tensor_scatter_nd_update(total, [[n]], [x[n] * 2])

        loop = tf.while_loop(lambda n, _: n < 3, step, (0, x))[1]
        mapped = tf.map_fn(lambda row: row + 1, x)  # reads and writes row by row
        return [tf.slice(x, [i, 1], [2, 3]), loop, mapped]

    found = names(same_as_tensorflow(function, X, np.int32(1)))
    assert {"dynamic_slice", "dynamic_update_slice"} <= found


def test_gather() -> None:
    def function(x: tf.Tensor, i: tf.Tensor) -> list[tf.Tensor]:
        pairs = tf.stack([i, i], 1)
        batch = tf.gather(x, pairs % 4, batch_dims=1)
        return [tf.gather(x, i), tf.gather(x, i, axis=1), tf.gather_nd(x, pairs), batch]

    assert "gather" in names(same_as_tensorflow(function, X, INDICES))


def test_scatter() -> None:
    def function(x: tf.Tensor, i: tf.Tensor) -> list[tf.Tensor]:
        rows = i[:, None]
        added = tf.tensor_scatter_nd_add(x, rows, x)
        largest = tf.math.unsorted_segment_max(x, i, 5)
        return [added, largest, tf.tensor_scatter_nd_update(x, rows, -x)]

    assert "scatter" in names(same_as_tensorflow(function, X, INDICES))


@pytest.mark.parametrize(
    ("make", "types"),
    [
        (emit("dynamic_slice", slice_sizes=(2, 9)), (floats(4, 6), integers(), integers())),
        (emit("dynamic_slice", slice_sizes=(2, 3)), (floats(4, 6), integers())),
        (emit("dynamic_slice", slice_sizes=(2, 3)), (floats(4, 6), integers(), integers(1))),
        (emit("dynamic_update_slice"), (floats(4), floats(5), integers())),
        (emit("dynamic_update_slice"), (floats(4), integers(2), integers())),
        (emit("gather", **gather((1, 9), *ROWS)), (floats(6, 4), integers(5))),
        (emit("gather", **gather((1, 4), *ROWS)), (floats(6, 4),)),
        (
            emit("gather", **gather((1, 1), (), (1,), (0,), (0,), (1,), 1)),
            (floats(6, 4), integers(5, 1)),
        ),
        (
            with_region("scatter", binary("add"), **scatter(*ROWS)),
            (floats(6, 4), integers(5), floats(4, 4)),
        ),
        (
            with_region("scatter", binary("add"), **scatter(*ROWS)),
            (floats(6, 4), integers(5), floats(5, 9)),
        ),
        (with_region("scatter", binary("add"), **scatter(*ROWS)), (floats(6, 4), integers(5))),
    ],
)
def test_refuses(make: Callable[..., Node], types: tuple[TensorType, ...]) -> None:
    assert_refused(make, types)
