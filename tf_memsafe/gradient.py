"""The gradient of a limited function, held to the same limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

from tf_memsafe import xla
from tf_memsafe.xla import ConcreteFunction

if TYPE_CHECKING:
    from tf_memsafe.function import LimitedFunction

Values = Sequence[tf.Tensor]
"""One tensor for each of a function's inputs: arguments, captured tensors, variables' values."""


class Backward:
    """Traced from the original function, and rewritten and cut on its own.

    It takes the function's flat values and the gradients of its differentiable results, so it
    recomputes what it needs in chunks, and sees variables as they were at the forward call.
    """

    def __init__(self, forward: LimitedFunction) -> None:
        self._forward = forward
        function = forward.function
        self._is_variable = [t.dtype == tf.resource for t in function.inputs]
        self.connected = [False] * len(function.inputs)
        explicit = [
            tf.TensorSpec(spec.shape, spec.dtype)
            for spec in (*forward.specs, *function.inputs[len(forward.specs) :])
            if spec.dtype != tf.resource
        ]
        upstream = [spec for spec in forward.result_specs if is_differentiable(spec)]
        concrete = self._traced(explicit, upstream)
        specs = [*explicit, *upstream]
        self._limited = forward.under_same_limit(concrete, specs)

    def _traced(self, *specs: list[tf.TensorSpec]) -> ConcreteFunction:
        def gradient(explicit: list[tf.Tensor], upstream: list[tf.Tensor]) -> list[tf.Tensor]:
            return self._trace(explicit, upstream)

        gradient.__name__ = f"gradient_of_{xla.name_of(self._forward.function)}"
        function = tf.function(gradient, jit_compile=True, autograph=False)
        return function.get_concrete_function(*specs)

    def _trace(self, explicit: list[tf.Tensor], upstream: list[tf.Tensor]) -> list[tf.Tensor]:
        function = self._forward.function
        pending = iter(explicit)
        arguments = [next(pending) for _ in self._forward.specs]
        captured = [
            handle if handle.dtype == tf.resource else next(pending)
            for handle in function.captured_inputs
        ]
        sources = [*arguments, *(self._source(i, tensor) for i, tensor in enumerate(captured))]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            for source in sources:
                if is_differentiable(source):
                    tape.watch(source)
            results = xla.call_flat(function, arguments, captured)
            outputs = [
                output
                for output in tf.nest.flatten(results, expand_composites=True)
                if tf.is_tensor(output) and is_differentiable(output)
            ]
        gradients = tape.gradient(outputs, sources, output_gradients=upstream)
        self.connected = [gradient is not None for gradient in gradients]
        return [tf.convert_to_tensor(gradient) for gradient in gradients if gradient is not None]

    def _source(self, index: int, tensor: tf.Tensor) -> tf.Tensor | tf.Variable:
        forward = self._forward
        placeholder = forward.function.inputs[len(forward.specs) + index]
        return forward.variables.get(id(placeholder), tensor)

    def __call__(self, inputs: Values, upstream: Values) -> list[tf.Tensor]:
        values, limited = self._values(inputs, upstream), self._limited
        if not limited.is_known and limited.runs_as_written:  # which warns of the reason
            return self._run_as_written(values)
        return limited(values, xla.is_watched(values, limited.function))

    def _values(self, inputs: Values, upstream: Values) -> list[tf.Tensor]:
        """What the gradient takes, with variables as they were at the forward call."""
        pairs = zip(inputs, self._is_variable, strict=True)
        explicit = [value for value, is_variable in pairs if not is_variable]
        variables = self._forward.variables
        frozen = {
            id(variables[id(placeholder)].handle): value
            for placeholder, value in zip(self._forward.function.inputs, inputs, strict=True)
            if id(placeholder) in variables
        }
        now = self._limited.values([*explicit, *upstream])
        handles = [None] * len(self._limited.specs) + self._limited.function.captured_inputs
        return [frozen.get(id(t), value) for t, value in zip(handles, now, strict=True)]

    def _run_as_written(self, values: Values) -> list[tf.Tensor]:
        """TensorFlow's own gradient; it reads, and assigns, copies of the variables."""
        function, count = self._limited.function, len(self._limited.specs)
        placeholders = function.inputs[count:]
        captured = [
            tf.Variable(value) if placeholder.dtype == tf.resource else value
            for placeholder, value in zip(placeholders, values[count:], strict=True)
        ]
        handles = [c.handle if isinstance(c, tf.Variable) else c for c in captured]
        return list(tf.nest.flatten(xla.call_flat(function, values[:count], handles)))


def is_differentiable(tensor: tf.Tensor | tf.TensorSpec | tf.Variable) -> bool:
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex)
