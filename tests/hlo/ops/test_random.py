from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.ops.makers import emit, floats
from tests.hlo.ops.refusing import assert_refused
from tests.hlo.running import graph_of, names, run, same_as_tensorflow
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.op import Symbol
from tf_memsafe.hlo.types import TensorType, TupleType

SEED = np.array([1, 2], np.int32)
STATE = TensorType("ui64", (2,))
ALGORITHM: dict[str, Any] = {"rng_algorithm": Symbol("rng_algorithm", "PHILOX")}
UNIFORM: dict[str, Any] = {"rng_distribution": Symbol("rng_distribution", "UNIFORM")}


@pytest.mark.parametrize("algorithm", ["philox", "threefry"])
def test_numbers_that_follow_from_a_seed(algorithm: str) -> None:
    def function(seed: tf.Tensor) -> tf.Tensor:
        return tf.random.stateless_normal([50], seed, alg=algorithm)

    assert "rng_bit_generator" in names(same_as_tensorflow(function, SEED))


def test_numbers_of_xlas_own_generator() -> None:
    graph = graph_of(lambda: (tf.random.uniform([1000]), tf.random.normal([1000])))
    uniform, normal = run(graph, [])
    assert 0 <= uniform.min() < 0.05 < 0.95 < uniform.max() < 1
    assert abs(normal.mean()) < 0.2
    assert abs(normal.std() - 1) < 0.2


@pytest.mark.parametrize(
    ("make", "types"),
    [
        (emit("rng_bit_generator", **ALGORITHM), (STATE,)),
        (emit("rng_bit_generator", type=floats(3), **ALGORITHM), (STATE,)),
        (
            emit("rng_bit_generator", type=TupleType((floats(2), floats(3))), **ALGORITHM),
            (STATE,),
        ),
        (emit("rng", type=floats(3, 4), **UNIFORM), (floats(), floats(), TensorType("i64", (1,)))),
        (emit("rng", type=floats(3), **UNIFORM), (floats(1), floats(), TensorType("i64", (1,)))),
    ],
)
def test_refuses(make: Callable[..., Node], types: tuple[TensorType, ...]) -> None:
    assert_refused(make, types)
