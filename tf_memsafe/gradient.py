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
        super().__init__(
            forward, [each for each in forward.result_specs if is_differentiable(each)]
        )

    def _trace(
        self, explicit: list[tf.Tensor], directions: list[tf.Tensor]
    ) -> list[tf.Tensor | None]:
        arguments, captured = self._inputs(explicit)
        sources = self._sources(arguments, captured)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            for source in sources:
                if is_differentiable(source):
                    tape.watch(source)
            outputs = self._results(arguments, captured)
        return list(tape.gradient(outputs, sources, output_gradients=directions))

    def gradients(self, inputs: Values, upstream: Values) -> list[tf.Tensor | None]:
        return self(inputs, upstream)
