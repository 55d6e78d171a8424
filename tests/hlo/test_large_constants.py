"""Large constants become parameters; those that are bands of a matrix are computed."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tf_memsafe
from tests.hlo.running import run
from tests.rewrite.rewriting import shown
from tf_memsafe.hlo import build
from tf_memsafe.hlo.large_constants import LARGEST_WRITTEN, lift_large_constants
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.types import TensorType

SIZE = 130
"""Of a matrix whose elements take more than LARGEST_WRITTEN bytes in every dtype."""

ONES = np.ones((SIZE, SIZE))
EYE = np.eye(SIZE)

BANDS = {
    "eye": EYE,
    "causal": np.triu(-np.inf * ONES, 1),
    "rows and columns": np.tril(np.ones((SIZE, SIZE + 3))),
    "all but a corner": np.triu(ONES, 1 - SIZE),
    "corner": np.triu(ONES, SIZE - 1),
    "band": np.tril(np.triu(np.nan * ONES, -2), 5),
    "zeros of two signs": np.where(EYE, -0.0, 0.0),
    "axes of one": np.tril(ONES)[None, :, None],
}

OTHERS = {
    "three values": EYE + np.triu(ONES, 2),
    "two bands": np.eye(SIZE, k=1) + np.eye(SIZE, k=-1),
    "one element off": EYE + (np.arange(SIZE) == 7)[:, None] * (np.arange(SIZE) == 9),
    "blocks": np.kron(np.eye(2), ONES),
    "three axes": np.stack([EYE, EYE]),
    "a vector": np.arange(SIZE**2),
}


def constant(matrix: np.ndarray, dtype: str = "f32") -> Node:
    return build.constant(matrix, TensorType(dtype, matrix.shape))


def lifted(node: Node) -> tuple[Graph, tuple[Node, ...]]:
    return lift_large_constants(Graph((), (node,)))


def test_an_eye_is_one_diagonal() -> None:
    graph, constants = lifted(constant(EYE))
    assert not constants
    assert shown(graph)[1:-1] == [
        "%1 = iota() iota_dimension=1 : i32[130,130]",
        "%2 = iota() iota_dimension=0 : i32[130,130]",
        "%3 = subtract(%1, %2) : i32[130,130]",
        "%4 = constant() 0 : i32[]",
        "%5 = broadcast_in_dim(%4) broadcast_dimensions=[] : i32[130,130]",
        "%6 = compare(%3, %5) EQ : i1[130,130]",
        "%7 = constant() 1.0 : f32[]",
        "%8 = broadcast_in_dim(%7) broadcast_dimensions=[] : f32[130,130]",
        "%9 = constant() 0.0 : f32[]",
        "%10 = broadcast_in_dim(%9) broadcast_dimensions=[] : f32[130,130]",
        "%11 = select(%6, %8, %10) : f32[130,130]",
    ]


def test_a_mask_of_truths_is_a_comparison() -> None:
    graph, _ = lifted(constant(np.tril(ONES).astype(bool), "i1"))
    (mask,) = graph.outputs
    assert mask.name == "not"
    assert mask.operands[0].name == "compare"


@pytest.mark.parametrize("matrix", BANDS.values(), ids=BANDS)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64", "complex<f32>", "i1", "i8"])
def test_a_band_has_the_same_bits(matrix: np.ndarray, dtype: str) -> None:
    with np.errstate(invalid="ignore"):
        node = constant(matrix.astype(build.NUMPY_DTYPES[dtype]), dtype)
    graph, constants = lifted(node)
    assert not constants
    (found,) = run(graph, [])
    (expected,) = run(Graph((), (node,)), [])
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("matrix", OTHERS.values(), ids=OTHERS)
def test_another_constant_becomes_a_parameter(matrix: np.ndarray) -> None:
    node = constant(matrix)
    graph, constants = lifted(node)
    assert constants == (node,)
    assert graph.outputs == graph.parameters


def test_a_small_constant_stays() -> None:
    node = constant(np.eye(63))
    assert node.type.bytes <= LARGEST_WRITTEN
    assert lifted(node) == (Graph((), (node,)), ())


def test_a_mask_that_tensorflow_folds_does_not_exist_whole() -> None:
    length = 1_000

    def attention(x: tf.Tensor) -> tf.Tensor:
        future = 1 - tf.linalg.band_part(tf.ones((length, length)), -1, 0)
        return tf.nn.softmax(x @ tf.transpose(x) - 1e9 * future) @ x

    function = tf.function(attention, jit_compile=True)
    x = tf.random.stateless_normal((length, 8), (1, 2), dtype=tf.float32)
    expected = function(x)
    with tf_memsafe.memory_limit("1MB"):
        np.testing.assert_allclose(function(x), expected, rtol=1e-5, atol=1e-6)
