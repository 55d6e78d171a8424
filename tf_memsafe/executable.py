"""A program that runs: a graph written as StableHLO and compiled, with the buffers it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf

from tf_memsafe import xla
from tf_memsafe.buffers import BufferAssignment
from tf_memsafe.hlo.build import NUMPY_DTYPES
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.ops.structure import literal
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.hlo.verify import verify
from tf_memsafe.hlo.writer import write
from tf_memsafe.progress import stage
from tf_memsafe.xla import ConcreteFunction


@dataclass(frozen=True)
class Executable:
    """A program that runs on flat values: StableHLO text, compiled, and its large constants.

    graph: what the text was written from.
    """

    text: str
    function: ConcreteFunction
    constants: tuple[tf.Tensor, ...]
    buffers: BufferAssignment
    graph: Graph = field(default=Graph((), ()), repr=False)

    @property
    def peak(self) -> int:
        """Bytes that a call needs at once."""
        return self.buffers.peak

    def __call__(self, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        return xla.call_inference(self.function, [*values, *self.constants])


@stage("proving")
def compile_graph(
    graph: Graph, constants: Sequence[Node] = (), for_calls: bool = False
) -> Executable:
    """Writes and compiles a graph whose last parameters are these large constants.

    for_calls: let the first call find it compiled, where that can be; there is no timeline then.

    Raises xla.XlaCompileError when XLA cannot compile it.
    """
    verify(graph)
    inputs = [tensor_spec(type_) for type_ in graph.types]
    outputs = [tensor_spec(output.tensor) for output in graph.outputs]
    text = write(graph)
    function = xla.stablehlo_function(text, inputs, outputs)
    tensors = tuple(
        tf.constant(np.reshape(literal(constant), constant.shape)) for constant in constants
    )
    measured = xla.compile_for_calls if for_calls else xla.measure
    return Executable(text, function, tensors, measured(function, inputs), graph)


def tensor_spec(type_: TensorType) -> tf.TensorSpec:
    return tf.TensorSpec(type_.shape, tf.as_dtype(NUMPY_DTYPES[type_.dtype]))
