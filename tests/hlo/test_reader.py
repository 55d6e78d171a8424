from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.running import graph_of, names, same_as_tensorflow
from tf_memsafe.hlo.node import Graph, Source
from tf_memsafe.hlo.op import UnsupportedOpError
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.types import TensorType

X = np.arange(12, dtype=np.float32).reshape(3, 4) / 7
FEW = np.arange(4, dtype=np.float32)


def test_parameters_come_in_call_order_with_their_types() -> None:
    graph = graph_of(lambda x, n: (n + 1, x * 2), X, np.int64(3))
    assert graph.types == (TensorType("f32", (3, 4)), TensorType("i64"))
    assert [output.tensor for output in graph.outputs] == [graph.types[1], graph.types[0]]


def test_an_unused_parameter_stays() -> None:
    assert len(graph_of(lambda x, y: x + 1, X, X).parameters) == 2


def test_captured_tensors_are_parameters() -> None:
    captured = tf.constant(X)
    assert len(graph_of(lambda y: y + captured, X).parameters) == 2


def test_two_programs_keep_their_own_sources() -> None:
    def source_of(name: str) -> Source | None:
        graph = graph_of(lambda x: tf.exp(x, name=name), X)
        graphs.append(graph)  # its nodes live on
        (node,) = [n for n in topological(graph.outputs) if n.name == "exponential"]
        return node.source

    graphs: list[Graph] = []
    assert [source_of("one"), source_of("two")] == [Source("Exp", "one"), Source("Exp", "two")]


def test_common_subexpressions_are_one_node() -> None:
    graph = graph_of(lambda x: tf.exp(x) + tf.exp(x), X)
    exponentials = [n for n in topological(graph.outputs) if n.name == "exponential"]
    assert len(exponentials) == 1


def test_a_node_knows_the_tensorflow_op_it_came_from() -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        with tf.name_scope("layer"):
            return tf.exp(x, name="grow")

    nodes = topological(graph_of(function, X).outputs)
    (source,) = [node.source for node in nodes if node.name == "exponential"]
    assert source == Source("Exp", "layer/grow")


def test_calls_are_taken_apart() -> None:
    inner = tf.function(lambda x: tf.sin(x) + 1)
    assert "sine" in names(same_as_tensorflow(lambda x: inner(inner(x)), X))


def test_loops_keep_their_state_and_branches_capture() -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        def step(i: tf.Tensor, t: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return i + 1, tf.cond(i % 2 == 0, lambda: t + x, lambda: t * x)

        return tf.while_loop(lambda i, _: i < 4, step, (0, x))[1]

    assert {"while", "if"} <= names(same_as_tensorflow(function, X))


DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64"
    " complex64 complex128"
)


@pytest.mark.parametrize("name", DTYPES.split())
def test_constants_of_every_dtype(name: str) -> None:
    dtype = tf.as_dtype(name)
    constants = [tf.cast([0, 1, 1, 0], dtype), tf.cast(1, dtype), tf.zeros([2, 0], dtype)]
    values = [tf.get_static_value(constant) for constant in constants]
    graph = graph_of(lambda: [tf.constant(value, dtype) for value in values])
    assert [n.name for n in topological(graph.outputs) if n.name != "reshape"] == ["constant"] * 3


def test_a_size_that_is_data_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedOpError, match="set-dimension-size") as raised:
        graph_of(lambda x: tf.boolean_mask(x, x > 1), FEW)
    assert raised.value.source is not None
    assert raised.value.source.op_type == "Where"


def test_numbers_with_effects_stay_apart() -> None:
    graph = graph_of(lambda: (tf.random.uniform([3]), tf.random.uniform([3])))
    assert len({node for node in topological(graph.outputs) if node.name == "rng"}) == 2
