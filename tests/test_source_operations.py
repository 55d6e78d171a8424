"""Every instruction of the HLO leads back to the TensorFlow operation that made it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensorflow as tf

from tests.programs import compiled
from tf_memsafe import xla
from tf_memsafe.source import find_operation


@tf.function
def inner(x: tf.Tensor) -> tf.Tensor:
    return tf.sin(x) * 2


@tf.function
def outer(x: tf.Tensor) -> tf.Tensor:
    return inner(tf.exp(x)) + inner(x)


def plain(x: tf.Tensor) -> tf.Tensor:
    with tf.name_scope("scope"):
        return tf.sin(x) + tf.cos(x)


def loop(x: tf.Tensor) -> tf.Tensor:
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, inner(y)), (0, x))[1]


def autograph_loop(x: tf.Tensor) -> tf.Tensor:
    for i in tf.range(3):
        x = tf.tan(x) + tf.cast(i, tf.float32)
    return x


def branch(x: tf.Tensor) -> tf.Tensor:
    with tf.name_scope("scope"):
        return tf.cond(tf.reduce_sum(x) > 0, lambda: loop(x), lambda: tf.tan(x))


def switch(x: tf.Tensor) -> tf.Tensor:
    index = tf.cast(tf.reduce_sum(x), tf.int32)
    return tf.switch_case(index, [lambda: tf.sin(x), lambda: tf.tan(x), lambda: inner(x)])


def mapped(x: tf.Tensor) -> tf.Tensor:
    return tf.map_fn(tf.sqrt, x)


def gradient(function: Callable[[tf.Tensor], tf.Tensor]) -> Callable[[tf.Tensor], tf.Tensor]:
    def gradient_of(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = function(x)
        return tape.gradient(value, x)

    gradient_of.__name__ += f"_{function.__name__}"
    return gradient_of


def bounded_loop(x: tf.Tensor) -> tf.Tensor:
    body = lambda y: (tf.asinh(y),)  # noqa: E731
    return tf.while_loop(lambda y: True, body, (x,), maximum_iterations=3)[0]


def outer_function(x: tf.Tensor) -> tf.Tensor:
    return outer(x)


PROGRAMS = [
    *(plain, outer_function, loop, autograph_loop, branch, switch, mapped),
    *map(gradient, (plain, outer_function, bounded_loop)),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_each_instruction_leads_to_an_operation_of_its_type(
    program: Callable[[tf.Tensor], tf.Tensor],
) -> None:
    spec = tf.TensorSpec([3])
    concrete = compiled(program, autograph=True).get_concrete_function(spec)
    module = xla.hlo_module(concrete, [spec])
    metadata = [i.metadata for c in module.computations for i in c.instructions]
    expected = {data.op_name: data.op_type for data in metadata if data.op_type}
    found = {name: find_operation(concrete.graph, name) for name in expected}
    assert {name: operation and operation.type for name, operation in found.items()} == expected
    assert expected


def test_an_unknown_name_leads_to_the_call_it_is_inside_of() -> None:
    graph = compiled(outer_function).get_concrete_function(tf.TensorSpec([3])).graph
    operation = find_operation(graph, "PartitionedCall/Unknown/Sin")
    assert operation is not None
    assert operation.name == "PartitionedCall"


@pytest.mark.parametrize("name", ["", "XLA_Args", "/", "unknown/Sin", ":0", "x:0"])
def test_no_operation_of_this_name(name: str) -> None:
    graph = compiled(plain).get_concrete_function(tf.TensorSpec([3])).graph
    assert find_operation(graph, name) is None
