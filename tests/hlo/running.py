"""Runs graphs and functions, for the tests of the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_memsafe import xla
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph
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
    concrete = tf.function(function, jit_compile=True).get_concrete_function(*tensors)
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in concrete.inputs]
    graph = read(xla.hlo_module(concrete, specs))
    verify(graph)
    return graph
