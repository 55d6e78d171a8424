"""Runs graphs and functions, for the tests of the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tests.programs import compiled
from tf_memsafe import xla
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node, Region
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.reader import read
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.hlo.verify import verify
from tf_memsafe.hlo.writer import write


def random_array(type_: TensorType, seed: int) -> np.ndarray:
    """Floats around 0, small integers, either truth value."""
    generator = np.random.default_rng(seed)
    dtype = np.dtype(build.NUMPY_DTYPES[type_.dtype])
    if dtype.kind in "iu":
        low = -2 if dtype.kind == "i" else 0
        return generator.integers(low, 8, type_.shape).astype(dtype)
    if dtype.kind == "b":
        return generator.integers(0, 2, type_.shape).astype(dtype)
    values = generator.normal(size=type_.shape)
    if dtype.kind == "c":
        values = values + 1j * generator.normal(size=type_.shape)
    return values.astype(dtype)


def spec(type_: TensorType) -> tf.TensorSpec:
    return tf.TensorSpec(type_.shape, tf.as_dtype(build.NUMPY_DTYPES[type_.dtype]))


def run(graph: Graph, arguments: Sequence[Any]) -> list[np.ndarray]:
    """What the graph's text computes when XLA compiles it."""
    outputs = [spec(output.tensor) for output in graph.outputs]
    function = xla.stablehlo_function(write(graph), list(map(spec, graph.types)), outputs)
    results = xla.call_inference(function, [tf.convert_to_tensor(a) for a in arguments])
    return [result.numpy() for result in results]


def graph_of(function: Callable[..., Any], *arguments: Any) -> Graph:
    """The verified graph of a function of tensors."""
    tensors = [tf.convert_to_tensor(argument) for argument in arguments]
    concrete = compiled(function).get_concrete_function(*tensors)
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in tensors]
    graph = read(xla.hlo_module(concrete, specs))
    verify(graph)
    return graph


def same_as_tensorflow(function: Callable[..., Any], *arguments: Any) -> Graph:
    """The function's graph, once what it computes was seen to be TensorFlow's own bits."""
    tensors = [tf.convert_to_tensor(argument) for argument in arguments]
    graph = graph_of(function, *tensors)
    expected = tf.nest.flatten(compiled(function)(*tensors))
    for found, wanted in zip(run(graph, tensors), expected, strict=True):
        np.testing.assert_array_equal(found, wanted.numpy(), strict=True)
    return graph


def names(graph: Graph) -> set[str]:
    """The ops of the graph and of the regions inside it."""
    return {node.name for node in _inside(Region(graph.parameters, graph.outputs))}


def _inside(region: Region) -> Iterator[Node]:
    for node in topological(region.results, region.captures):
        yield node
        for inner in node.regions:
            yield from _inside(inner)
