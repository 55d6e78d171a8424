"""What the programs of a function's derivatives have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import tensorflow as tf

from tf_memsafe import xla
from tf_memsafe.xla import ConcreteFunction

if TYPE_CHECKING:
    from tf_memsafe.function import LimitedFunction

Values = Sequence[tf.Tensor]
"""One tensor for each of a function's inputs: arguments, captured tensors, variables' values."""


class Gradients(Protocol):
    """What computes the gradients of a function."""

    def gradients(self, inputs: Values, upstream: Values) -> list[tf.Tensor | None]:
        """One for each input, from one for each result that is differentiable."""


class Derivative:
    """A program traced from the original function, and rewritten, cut and proved on its own.

    It takes the function's flat values, with variables as they were at the call, and the
    directions that the derivative is asked for.

    name: of what is traced, before the function's own. directions: the type of each direction.
    """

    name: str

    def __init__(self, forward: LimitedFunction, directions: Sequence[tf.TensorSpec]) -> None:
        self._forward = forward
        function = forward.function
        self._is_variable = [t.dtype == tf.resource for t in function.inputs]
        explicit = [
            tf.TensorSpec(spec.shape, spec.dtype)
            for spec in (*forward.specs, *function.inputs[len(forward.specs) :])
            if spec.dtype != tf.resource
        ]
        concrete = self._traced(explicit, list(directions))
        self._limited = self._limit(concrete, [*explicit, *directions])

    def _traced(self, *specs: list[tf.TensorSpec]) -> ConcreteFunction:
        def derivative(explicit: list[tf.Tensor], directions: list[tf.Tensor]) -> list[tf.Tensor]:
            found = self._trace(explicit, directions)
            self._connected = [each is not None for each in found]
            return [tf.convert_to_tensor(each) for each in found if each is not None]

        derivative.__name__ = f"{self.name}_of_{xla.name_of(self._forward.function)}"
        function = tf.function(derivative, jit_compile=True, autograph=False)
        with xla.recording_anew():
            return function.get_concrete_function(*specs)

    def _limit(self, program: ConcreteFunction, specs: list[tf.TensorSpec]) -> LimitedFunction:
        return self._forward.under_same_limit(program, specs)

    def _trace(
        self, explicit: list[tf.Tensor], directions: list[tf.Tensor]
    ) -> list[tf.Tensor | None]:
        """The derivatives; None for those that are zero whatever the values."""
        raise NotImplementedError

    def _inputs(self, explicit: Values) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """The original function's arguments and captured tensors."""
        pending, function = iter(explicit), self._forward.function
        arguments = [next(pending) for _ in self._forward.specs]
        captured = [
            handle if handle.dtype == tf.resource else next(pending)
            for handle in function.captured_inputs
        ]
        return arguments, captured

    def _sources(self, arguments: Values, captured: Values) -> list[tf.Tensor | tf.Variable]:
        """What derivatives are taken with respect to: a variable where a handle is captured."""
        placeholders = self._forward.function.inputs[len(arguments) :]
        variables = self._forward.variables
        pairs = zip(placeholders, captured, strict=True)
        return [*arguments, *(variables.get(id(p), tensor) for p, tensor in pairs)]

    def _results(self, arguments: Values, captured: Values) -> list[tf.Tensor]:
        """The original function's results that have derivatives."""
        results = xla.call_flat(self._forward.function, arguments, captured)
        return [
            result
            for result in tf.nest.flatten(results, expand_composites=True)
            if tf.is_tensor(result) and is_differentiable(result)
        ]

    def __call__(self, inputs: Values, directions: Values) -> list[tf.Tensor | None]:
        """The derivatives, as `_trace` found them."""
        found = iter(self._run(self._values(inputs, directions)))
        return [next(found) if is_connected else None for is_connected in self._connected]

    def _run(self, values: Values) -> list[tf.Tensor]:
        limited = self._limited
        if not limited.is_known and limited.runs_as_written:  # which warns of the reason
            return self._run_as_written(values)
        return limited(values, xla.is_watched(values, limited.function))

    def _values(self, inputs: Values, directions: Values) -> list[tf.Tensor]:
        """What the program takes, with variables as they were at the call."""
        pairs = zip(inputs, self._is_variable, strict=True)
        explicit = [value for value, is_variable in pairs if not is_variable]
        variables = self._forward.variables
        frozen = {
            id(variables[id(placeholder)].handle): value
            for placeholder, value in zip(self._forward.function.inputs, inputs, strict=True)
            if id(placeholder) in variables
        }
        now = self._limited.values([*explicit, *directions])
        handles = [None] * len(self._limited.specs) + self._limited.function.captured_inputs
        return [frozen.get(id(t), value) for t, value in zip(handles, now, strict=True)]

    @property
    def _places(self) -> list[int]:
        """Where the value of each of the function's inputs is among those of the program."""
        count, explicit = len(self._limited.specs), iter(range(len(self._is_variable)))
        captured = enumerate(self._limited.function.captured_inputs, count)
        of_handle = {id(handle): place for place, handle in captured}
        function, variables = self._forward.function, self._forward.variables
        return [
            of_handle[id(variables[id(placeholder)].handle)] if is_variable else next(explicit)
            for placeholder, is_variable in zip(function.inputs, self._is_variable, strict=True)
        ]

    def _run_as_written(self, values: Values) -> list[tf.Tensor]:
        """TensorFlow's own derivative; it reads, and assigns, copies of the variables."""
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
