from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.ops.makers import booleans, emit, floats, integers
from tests.hlo.ops.refusing import assert_refused
from tests.hlo.running import names, same_as_tensorflow
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.types import TensorType

X = np.linspace(0.1, 0.9, 12, dtype=np.float32).reshape(3, 4)


def test_floats() -> None:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        return [tf.exp(x), tf.math.erf(x), tf.atan2(x, x), tf.where(x > 0.5, x, 0.0), x**x]

    found = names(same_as_tensorflow(function, X))
    assert {"exponential", "erf", "atan2", "select", "power"} <= found


def test_complex_numbers() -> None:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        z = tf.complex(x, 1 - x)
        return [tf.abs(z), tf.math.real(z), tf.math.imag(z), tf.math.conj(z) * z]

    assert {"complex", "real", "imag", "abs"} <= names(same_as_tensorflow(function, X))


def test_integers_and_truth_values() -> None:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        n = tf.cast(x * 10, tf.int32)
        shifted = tf.bitwise.left_shift(n, 2)
        return [n % 3, shifted, tf.bitwise.invert(n), (n > 3) & (n < 7), tf.where(n > 5, n, -n)]

    expected = {"remainder", "shift_left", "not", "compare", "and", "select", "convert"}
    assert expected <= names(same_as_tensorflow(function, X))


@pytest.mark.parametrize(
    ("make", "types"),
    [
        (emit("tanh"), (floats(3), floats(3))),
        (emit("add"), (floats(3),)),
        (emit("add"), (floats(3), floats(4))),
        (emit("add"), (floats(3), integers(3))),
        (emit("select"), (floats(3), floats(3), floats(3))),
        (emit("select"), (booleans(4), floats(3), floats(3))),
        (emit("select"), (booleans(3), floats(3), integers(3))),
        (emit("clamp"), (floats(2), floats(3), floats())),
        (emit("complex"), (floats(2), floats(3))),
        (emit("convert", type=TensorType("f64", (2,))), (floats(3),)),
        (emit("convert"), (floats(3),)),
    ],
)
def test_refuses(make: Callable[..., Node], types: tuple[TensorType, ...]) -> None:
    assert_refused(make, types)
