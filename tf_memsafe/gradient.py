"""The gradient of a limited function, held to the same limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from tf_memsafe.derivative import Derivative, Values, is_differentiable

if TYPE_CHECKING:
    from tf_memsafe.function import LimitedFunction


class Backward(Derivative):
    """The gradients of the results to all inputs; its directions are the results' gradients.

    It recomputes what it needs in chunks, so nothing large is kept between the two passes.

    """

    name = "gradient"

    def __init__(self, forward: LimitedFunction) -> None:
        self._connected = [False] * len(forward.function.inputs)
        super().__init__(
            forward, [each for each in forward.result_specs if is_differentiable(each)]
        )

    def _trace(self, explicit: list[tf.Tensor], directions: list[tf.Tensor]) -> list[tf.Tensor]:
        arguments, captured = self._inputs(explicit)
        sources = self._sources(arguments, captured)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            for source in sources:
                if is_differentiable(source):
                    tape.watch(source)
            outputs = self._results(arguments, captured)
        gradients = tape.gradient(outputs, sources, output_gradients=directions)
        self._connected = [gradient is not None for gradient in gradients]
        return [tf.convert_to_tensor(gradient) for gradient in gradients if gradient is not None]

    def gradients(self, inputs: Values, upstream: Values) -> list[tf.Tensor | None]:
        found = iter(self(inputs, upstream))
        return [next(found) if is_connected else None for is_connected in self._connected]
