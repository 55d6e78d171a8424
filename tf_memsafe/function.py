"""One concrete function, for one set of shapes, under one limit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import tensorflow as tf

from tf_memsafe import xla
from tf_memsafe.bound import executor_bytes
from tf_memsafe.captured import captured
from tf_memsafe.derivative import Gradients, Values, is_differentiable
from tf_memsafe.errors import MemoryLimitError, warn_once
from tf_memsafe.executable import Executable, compile_graph
from tf_memsafe.gradient import Backward
from tf_memsafe.progress import progress, stage
from tf_memsafe.proof import Proof, Updates, prove
from tf_memsafe.reasons import at_stake, dropped, not_compiled
from tf_memsafe.report import limit_message, record
from tf_memsafe.tangent import Forward
from tf_memsafe.xla import ConcreteFunction, XlaCompileError

NO_GRADIENT = (
    "it draws random numbers, which its gradient cannot draw again; open the tape inside of it"
)


class LimitedFunction:
    """A concrete function that keeps to a limit, or says why it cannot.

    specs: the fully defined type of each argument. limit: in bytes. optimizers: whether each is
    on, by name. assigns: whether calls assign the variables that the function assigns.
    backward: makes what computes the gradients of this function.
    """

    def __init__(
        self,
        function: ConcreteFunction,
        specs: Sequence[tf.TensorSpec],
        limit: int,
        optimizers: Mapping[str, bool],
        assigns: bool = True,
        backward: Callable[[LimitedFunction], Gradients] = Backward,
    ) -> None:
        self.function = function
        self.specs = list(specs)
        self.limit = limit
        self.optimizers = optimizers
        self._assigns = assigns
        self._make_backward = backward
        self._has_run = False
        self._forwards: dict[tuple[int, ...], Forward] = {}
        self._lock = threading.RLock()

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
        if proof is None:
            return True
        if proof.problem is not None and not proof.fits:
            leave(self.function, proof.problem)
            return True
        if not proof.fits:
            message = limit_message(proof, self.function)
            raise MemoryLimitError(message, self.limit, proof.peak_after)
        return proof.executable is None

    @property
    def gradient_runs_as_written(self) -> bool:
        """Whether a call that a tape watches may go to the user's function untouched.

        TensorFlow's own forward pass keeps what its backward pass needs: never more than every
        tensor of the function's graph together. Where that fits, a rewritten program is no gain:
        it keeps nothing, and the backward pass would compute it again.
        """
        proof = self.proof
        if proof is None or proof.problem is not None:
            return self.runs_as_written
        if proof.has_effects:
            if not proof.fits_as_written:
                leave(self.function, NO_GRADIENT)
            return True
        return self._kept is not None and self._kept + proof.before.peak <= self.limit

    @cached_property
    def _kept(self) -> int | None:
        """Bytes that TensorFlow's forward pass keeps at most; None if that is not known."""
        return executor_bytes(self.function.graph)

    def runs_as_written_for(self, watched: bool, has_tangents: bool) -> bool:
        """The same for a call; `watched` says whether a tape or a forward accumulator records it.

        Of a call that is being traced TensorFlow may build the gradient at any time. How much its
        forward accumulators keep is not known.
        """
        if has_tangents and self.is_known and not self._has_effects:
            return False
        if watched or not (tf.executing_eagerly() or self._has_effects):
            return self.gradient_runs_as_written
        return self.runs_as_written

    @property
    def _has_effects(self) -> bool:
        return self.proof is not None and self.proof.has_effects

    @cached_property
    def proof(self) -> Proof | None:
        """What came of holding the function to its limit; None if XLA cannot compile it."""
        with self._lock:
            try:
                with progress(xla.name_of(self.function)):
                    proof = prove(
                        self.function, self.specs, self.limit, self.optimizers, for_calls=True
                    )
            except XlaCompileError as error:
                leave(self.function, not_compiled(error, self.function.graph))
                return None
            record(proof, self.function)
            for failure in proof.failures:
                name = xla.name_of(self.function)
                message = f"tf_memsafe {dropped(name, failure)}"
                warn_once(message, self.function.graph, at_stake)
            return proof

    # --- calls ---

    def __call__(self, values: Values, watched: bool) -> list[tf.Tensor]:
        """The function's flat results; `watched` says whether a tape records the call."""
        if not watched and tf.executing_eagerly():
            return self._run(values)
        if not tf.executing_eagerly():
            # Gradients of branches and loops know tensors of their own graph alone.
            values = [tf.identity(value) for value in values]
        # Traced now, as by TensorFlow: where a gradient is asked for, recording may be stopped.
        if watched and xla.would_go_back(values):
            _ = self._backward
        moving = xla.with_tangents(values) if watched else ()
        return self._with_tangents(values, moving) if moving else self._differentiable(values)

    def _with_tangents(self, values: Values, moving: tuple[int, ...]) -> list[tf.Tensor]:
        """The results, of which forward accumulators are told as well.

        moving: the positions of the values that they watch.
        """
        forward = self._forward(moving)
        with xla.unrecorded():
            results = self._differentiable(values)
        xla.record_call(
            results,
            values,
            lambda *upstream: self.gradients(values, upstream),
            lambda *tangents: forward.tangents(values, tangents),
        )
        return results

    def _differentiable(self, values: Values) -> list[tf.Tensor]:
        """The results, that tapes, and `tf.gradients` where it is traced, can go back from."""

        @tf.custom_gradient
        def run(*inputs: tf.Tensor) -> tuple[list[tf.Tensor], Any]:
            return self._run(inputs), lambda *upstream: self.gradients(inputs, upstream)

        return list(tf.nest.flatten(run(*values)))

    def _run(self, values: Values) -> list[tf.Tensor]:
        proof = self.proof
        assert proof is not None
        outputs = self._outputs(values)
        for output, parameter in self.updates if self._assigns else ():
            self._variable(parameter).assign(outputs[output], read_value=False)
        return outputs[: len(self.result_specs)]

    def _outputs(self, values: Values) -> list[tf.Tensor]:
        """What the program returns; the first time, it may have to be compiled to be run."""
        if self._has_run:
            return self._executable(values)
        with progress(xla.name_of(self.function)), stage("compiling and running"):
            outputs = self._executable(values)
        self._has_run = True
        return outputs

    @cached_property
    def _executable(self) -> Executable:
        """The proved program; for a function that fits, its own graph on explicit values."""
        proof = self.proof
        assert proof is not None
        assert proof.graph is not None
        with self._lock:
            if self.runs_as_written:
                return compile_graph(proof.graph, proof.constants, for_calls=True)
            assert proof.executable is not None
            return proof.executable

    @property
    def updates(self) -> Updates:
        """Which output is assigned to the variable of which parameter."""
        return self.proof.updates if self.proof is not None else ()

    def _variable(self, parameter: int) -> tf.Variable:
        return self.variables[id(self.function.inputs[parameter])]

    @cached_property
    def variables(self) -> Mapping[int, tf.Variable]:
        """The variables that the function reads, by the identity of their graph inputs."""
        pairs = zip(self._captured_placeholders, captured(self.function), strict=True)
        return {
            id(placeholder): each for placeholder, each in pairs if isinstance(each, tf.Variable)
        }

    @property
    def _captured_placeholders(self) -> list[tf.Tensor]:
        return list(self.function.inputs[len(self.specs) :])

    @property
    def value_specs(self) -> list[tf.TensorSpec]:
        """The type of each of the function's values: of a variable's, where it reads one."""
        known = [
            self.variables.get(id(placeholder), placeholder)
            for placeholder in self._captured_placeholders
        ]
        return [*self.specs, *(tf.TensorSpec(each.shape, each.dtype) for each in known)]

    def values(self, arguments: Values) -> list[tf.Tensor]:
        """A call's arguments with the current values of what the function captures."""
        pairs = zip(self._captured_placeholders, self.function.captured_inputs, strict=True)
        return [
            *arguments,
            *(
                self.variables[id(placeholder)].read_value()
                if id(placeholder) in self.variables
                else tensor
                for placeholder, tensor in pairs
            ),
        ]

    # --- gradients ---

    def gradients(self, inputs: Values, upstream: Values) -> list[tf.Tensor | None]:
        """Of each input, from those of all results."""
        if self._has_effects:
            name = xla.name_of(self.function)
            raise ValueError(f"{name}: {NO_GRADIENT}")
        results = zip(self.result_specs, upstream, strict=True)
        known = [tf.convert_to_tensor(g) for result, g in results if is_differentiable(result)]
        return self._backward.gradients(inputs, known)

    @cached_property
    def _backward(self) -> Gradients:
        with self._lock:
            return self._make_backward(self)

    def _forward(self, moving: tuple[int, ...]) -> Forward:
        with self._lock:
            if moving not in self._forwards:
                self._forwards[moving] = Forward(self, moving)
            return self._forwards[moving]

    def under_same_limit(
        self,
        function: ConcreteFunction,
        specs: Sequence[tf.TensorSpec],
        backward: Callable[[LimitedFunction], Gradients] = Backward,
    ) -> LimitedFunction:
        """Another function, whose calls assign nothing, under the same limit and optimizers."""
        return LimitedFunction(function, specs, self.limit, self.optimizers, False, backward)


def leave(function: ConcreteFunction, reason: str) -> None:
    """Warns that calls go to the user's function untouched, and why."""
    message = f"tf_memsafe leaves {xla.name_of(function)} as it is: {reason}"
    warn_once(message, function.graph, at_stake)
