"""One concrete function, for one set of shapes, under one limit: running it, and its gradient."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import tensorflow as tf

from tf_memsafe import xla
from tf_memsafe.errors import MemoryLimitError, warn_user
from tf_memsafe.proof import Executable, Proof, compile_graph, prove
from tf_memsafe.report import limit_message
from tf_memsafe.xla import ConcreteFunction, XlaCompileError

Values = Sequence[tf.Tensor]
"""One tensor for each of the function's inputs: arguments, captured tensors, variables' values."""


class LimitedFunction:
    """A concrete function that keeps to a limit, or says why it cannot.

    specs: the fully defined type of each argument. limit: in bytes. assigns: whether calls assign
    the variables that the function assigns; its gradient, which computes it again, does not.
    """

    def __init__(
        self,
        function: ConcreteFunction,
        specs: Sequence[tf.TensorSpec],
        limit: int,
        assigns: bool = True,
    ) -> None:
        self.function = function
        self.specs = list(specs)
        self.limit = limit
        self._assigns = assigns
        self._lock = threading.RLock()
        self._warned: set[str] = set()

    @cached_property
    def result_specs(self) -> list[tf.TensorSpec]:
        """The fully defined type of each result, which the traced function may not know."""
        specs = xla.result_specs(self.function)
        if self.proof is None or self.proof.graph is None:
            return specs
        outputs = self.proof.graph.outputs[: len(specs)]
        return [
            tf.TensorSpec(output.shape, spec.dtype)
            for output, spec in zip(outputs, specs, strict=True)
        ]

    # --- what is known before the first call ---

    @property
    def is_known(self) -> bool:
        """Whether XLA can compile the function and every op of it is known."""
        return self.proof is not None and self.proof.problem is None

    @property
    def runs_as_written(self) -> bool:
        """Whether calls go to the user's function untouched.

        Raises MemoryLimitError if it needs more than the limit and cannot be cut far enough.
        """
        proof = self.proof
        if proof is None or proof.fits_as_written:
            return True
        if proof.problem is not None:
            self.leave(proof.problem)
            return True
        if not proof.fits:
            message = limit_message(proof, self.function)
            raise MemoryLimitError(message, self.limit, proof.smallest_peak)
        return False

    @property
    def gradient_runs_as_written(self) -> bool:
        """Whether a call that a tape watches may go to the user's function untouched.

        TensorFlow's own forward pass keeps what its backward pass needs: never more than every
        tensor of the function's graph together.
        """
        proof = self.proof
        if proof is None or proof.problem is not None:
            return self.runs_as_written
        if proof.has_effects:
            if not proof.fits_as_written:
                self.leave("it draws random numbers, which its gradient cannot draw again")
            return True
        kept = _tensor_bytes(self.function.graph)
        return kept is not None and kept + proof.before.peak <= self.limit and self.runs_as_written

    @cached_property
    def proof(self) -> Proof | None:
        """What came of holding the function to its limit; None if XLA cannot compile it."""
        with self._lock:
            try:
                return prove(self.function, self.specs, self.limit, bound_is_enough=True)
            except XlaCompileError as error:
                self.leave(str(error))
                return None

    def leave(self, reason: str) -> None:
        """Warns, once for each reason, that calls go to the user's function untouched."""
        if reason not in self._warned:
            self._warned.add(reason)
            warn_user(f"tf_memsafe leaves {xla.name_of(self.function)} as it is: {reason}")

    # --- calls ---

    def __call__(self, values: Values, watched: bool) -> list[tf.Tensor]:
        """The function's flat results; `watched` says whether a tape records the call."""
        if not watched:
            return self._run(values)
        # Traced here, as by TensorFlow: where a gradient is asked for, recording may be stopped.
        backward = self._backward

        @tf.custom_gradient
        def run(*inputs: tf.Tensor) -> tuple[list[tf.Tensor], Any]:
            return self._run(inputs), lambda *upstream: self._gradients(backward, inputs, upstream)

        return list(tf.nest.flatten(run(*values)))

    def _run(self, values: Values) -> list[tf.Tensor]:
        proof = self.proof
        assert proof is not None
        outputs = self._executable(values)
        for output, parameter in proof.updates if self._assigns else ():
            self._variable(parameter).assign(outputs[output], read_value=False)
        return outputs[: len(self.result_specs)]

    @cached_property
    def _executable(self) -> Executable:
        """The proved program; for a function that fits, its own graph on explicit values."""
        proof = self.proof
        assert proof is not None
        assert proof.graph is not None
        with self._lock:
            if self.runs_as_written:
                return compile_graph(proof.graph, proof.constants)
            assert proof.executable is not None
            return proof.executable

    def _variable(self, parameter: int) -> tf.Variable:
        return self.variables[id(self.function.inputs[parameter])]

    @cached_property
    def variables(self) -> Mapping[int, tf.Variable]:
        """The variables that the function reads, by the identity of their graph inputs."""
        by_handle = {id(variable.handle): variable for variable in self.function.graph.variables}
        pairs = zip(self._captured_placeholders, self.function.captured_inputs, strict=True)
        return {
            id(placeholder): by_handle[id(captured)]
            for placeholder, captured in pairs
            if id(captured) in by_handle
        }

    @property
    def _captured_placeholders(self) -> list[tf.Tensor]:
        return list(self.function.inputs[len(self.specs) :])

    def values(self, arguments: Values) -> list[tf.Tensor]:
        """A call's arguments with the current values of what the function captures."""
        captured = zip(self._captured_placeholders, self.function.captured_inputs, strict=True)
        return [
            *arguments,
            *(
                self.variables[id(placeholder)].read_value()
                if id(placeholder) in self.variables
                else tensor
                for placeholder, tensor in captured
            ),
        ]

    # --- gradients ---

    def _gradients(
        self, backward: _BackwardFunction, inputs: Values, upstream: Values
    ) -> list[tf.Tensor | None]:
        results = zip(self.result_specs, upstream, strict=True)
        known = [tf.convert_to_tensor(g) for result, g in results if _is_differentiable(result)]
        found = iter(backward(inputs, known))
        return [next(found) if has_gradient else None for has_gradient in backward.connected]

    @cached_property
    def _backward(self) -> _BackwardFunction:
        with self._lock:
            return _BackwardFunction(self)


class _BackwardFunction:
    """The gradient of a limited function: traced from the original, held to the same limit.

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
        upstream = [spec for spec in forward.result_specs if _is_differentiable(spec)]
        concrete = self._traced(explicit, upstream)
        specs = [*explicit, *upstream]
        self._limited = LimitedFunction(concrete, specs, forward.limit, assigns=False)

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
                if _is_differentiable(source):
                    tape.watch(source)
            results = xla.call_flat(function, arguments, captured)
            outputs = [
                output
                for output in tf.nest.flatten(results, expand_composites=True)
                if tf.is_tensor(output) and _is_differentiable(output)
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


def _is_differentiable(tensor: tf.Tensor | tf.TensorSpec | tf.Variable) -> bool:
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex)


def _tensor_bytes(graph: tf.Graph) -> int | None:
    """Bytes of all tensors of a traced graph together; None if a shape is not known."""
    total = 0
    for operation in graph.get_operations():
        for tensor in operation.outputs:
            if not tensor.shape.is_fully_defined():
                return None
            total += tensor.shape.num_elements() * max(1, tensor.dtype.size)
    return total
