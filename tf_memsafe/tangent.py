"""What a forward accumulator asks of a limited function, held to the same limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

from tf_memsafe.derivative import Derivative, Values, is_differentiable
from tf_memsafe.xla import ConcreteFunction

if TYPE_CHECKING:
    from tf_memsafe.function import LimitedFunction


class Forward(Derivative):
    """The tangents of the results; its directions are the tangents of the inputs that have one.

    moving: the positions of these inputs.
    """

    name = "tangents"

    def __init__(self, forward: LimitedFunction, moving: Sequence[int]) -> None:
        self._moving = moving
        types = forward.value_specs
        super().__init__(forward, [types[position] for position in moving])

    def _trace(
        self, explicit: list[tf.Tensor], directions: list[tf.Tensor]
    ) -> list[tf.Tensor | None]:
        arguments, captured = self._inputs(explicit)
        sources = self._sources(arguments, captured)
        moving = [sources[position] for position in self._moving]
        # Accumulators know the handle of a variable as what it is inside of the trace.
        known = [tf.convert_to_tensor(each) for each in captured]
        with tf.autodiff.ForwardAccumulator(moving, directions) as accumulator:
            results = iter(self._results(arguments, known))
        return [
            accumulator.jvp(next(results)) if is_differentiable(spec) else None
            for spec in self._forward.result_specs
        ]

    def tangents(self, inputs: Values, tangents: Values) -> list[tf.Tensor | None]:
        """One for each result, from one for each input, which is zero where it has none."""
        return self(inputs, [tangents[position] for position in self._moving])

    # --- gradients ---

    def _limit(self, program: ConcreteFunction, specs: list[tf.TensorSpec]) -> LimitedFunction:
        return self._forward.under_same_limit(program, specs, lambda _: self)

    def gradients(self, inputs: Values, upstream: Values) -> list[tf.Tensor | None]:
        """Of the tangents J t: since <u, J t> is <J^T u, t>, those of the function's gradients.

        Traced as any function's, they would be made of its third derivatives times zero, which is
        NaN for x ** 2 at 0.

        inputs: what the program takes. upstream: one for each result that has a tangent.
        """
        function, places = self._forward, self._places
        values = [inputs[place] for place in places]
        start = len(self._limited.specs) - len(self._moving)
        directions = inputs[start : start + len(self._moving)]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([value for value in values if is_differentiable(value)])
            found = function.gradients(values, self._of_all_results(upstream))
        gradients = [found[position] for position in self._moving]
        pairs = [(g, t) for g, t in zip(gradients, directions, strict=True) if g is not None]
        of_values: list[tf.Tensor | None] = [None] * len(values)
        if pairs:
            products, along = zip(*pairs, strict=True)
            of_values = tape.gradient(list(products), values, output_gradients=list(along))
        result: list[tf.Tensor | None] = [None] * len(inputs)
        result[start : start + len(gradients)] = gradients
        for place, gradient in zip(places, of_values, strict=True):
            result[place] = gradient
        return result

    def _of_all_results(self, upstream: Values) -> list[tf.Tensor]:
        """With zeros for the results that have no tangent."""
        given = iter(upstream)
        pairs = zip(self._forward.result_specs, self._connected, strict=True)
        return [
            next(given) if is_connected else tf.zeros(spec.shape, spec.dtype)
            for spec, is_connected in pairs
        ]
