"""Inputs whose values XLA has to know when it compiles: the k of a top_k, a shape, an axis.

TensorFlow compiles a function again for each of their values; so does this package. They are
arguments, and variables that the function reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import tensorflow as tf

from tf_memsafe import xla
from tf_memsafe.captured import captured
from tf_memsafe.derivative import Values
from tf_memsafe.function import LimitedFunction
from tf_memsafe.proof import Updates
from tf_memsafe.xla import ConcreteFunction, XlaCompileError

MOST_ELEMENTS = 32
"""Of an argument that is tried as a constant: shapes, axes and paddings have fewer, data more."""

Each = TypeVar("Each", bound=tf.Tensor | tf.TensorSpec)

Positions: TypeAlias = tuple[int, ...]
"""Which of a function's inputs are constants: its arguments come first, then what it captures."""

Input: TypeAlias = tf.Tensor | tf.TensorSpec | tf.Variable

Given: TypeAlias = Sequence[tf.Tensor | tf.TensorSpec]


def constant_inputs(function: ConcreteFunction, arguments: Given) -> Positions:
    """The inputs that XLA has to know to compile the function for tensors of fixed shapes.

    XLA itself is asked, with some of them as constants. Empty where that is of no help.

    Example: for `tf.math.top_k(x, k)` and a tensor k, `(1,)`.
    """
    given = _inputs(function, arguments)
    needed = tuple(i for i, each in enumerate(given) if _may_be_constant(function, i, each))
    if not needed or _is_static(function, arguments, ()):
        return ()
    if not _is_static(function, arguments, needed):
        return ()
    for position in needed:
        others = tuple(each for each in needed if each != position)
        if others and _is_static(function, arguments, others):
            needed = others
    return needed


def values_of(
    function: ConcreteFunction, arguments: Values, positions: Positions
) -> tuple[object, ...] | None:
    """The values of these inputs, to be told apart by; None if one is not known yet."""
    are_arguments = max(positions) < len(arguments)  # as mostly; this is asked at each call
    given = arguments if are_arguments else _inputs(function, arguments)
    values = [_value(given[position]) for position in positions]
    if any(value is None for value in values):
        return None
    return tuple((np.shape(value), np.asarray(value).tobytes()) for value in values)


def with_constants(
    function: ConcreteFunction, arguments: Given
) -> tuple[ConcreteFunction, list[tf.TensorSpec]]:
    """The function with what XLA has to know as constants, and the types of its other arguments."""
    if positions := constant_inputs(function, arguments):
        function = _specialised(function, arguments, positions)
    return function, _specs(_without(arguments, positions))


class ConstantsFunction(LimitedFunction):
    """A concrete function with some of its inputs as constants, that keeps to a limit.

    It is called with all arguments. arguments: of a call; positions: which inputs are constants.
    """

    def __init__(
        self,
        function: ConcreteFunction,
        arguments: Values,
        positions: Positions,
        limit: int,
        optimizers: Mapping[str, bool],
    ) -> None:
        specs = _specs(_without(arguments, positions))
        super().__init__(_specialised(function, arguments, positions), specs, limit, optimizers)
        self._positions = positions
        given = _inputs(function, arguments)
        self._constants = [given[i] for i in positions if i >= len(arguments)]

    def values(self, arguments: Values) -> list[tf.Tensor]:
        return super().values(_without(arguments, self._positions))

    @property
    def updates(self) -> Updates:
        """Without those of variables that are constants: they are given the value they have."""
        return tuple(
            (output, parameter)
            for output, parameter in super().updates
            if all(self._variable(parameter) is not each for each in self._constants)
        )


def _inputs(function: ConcreteFunction, arguments: Given) -> list[Input]:
    """What the function is given, with variables in place of their handles."""
    return [*arguments, *captured(function)]


def _value(given: Input) -> Any:
    """The value of an input, where it is known."""
    if isinstance(given, tf.Variable):
        return given.numpy() if tf.executing_eagerly() else None
    return None if isinstance(given, tf.TensorSpec) else tf.get_static_value(given)


def _may_be_constant(function: ConcreteFunction, position: int, given: Input) -> bool:
    is_number = given.dtype.is_integer or given.dtype.is_bool
    if not is_number or not given.shape.is_fully_defined():
        return False
    if isinstance(given, tf.Variable) and not _is_only_read(function.inputs[position]):
        return False
    return given.shape.num_elements() <= MOST_ELEMENTS and _value(given) is not None


def _is_only_read(handle: tf.Tensor) -> bool:
    """Whether a variable is sure not to be assigned: it is given to nothing that might do it."""
    return all(operation.type == "ReadVariableOp" for operation in handle.consumers())


def _is_static(function: ConcreteFunction, arguments: Given, positions: Positions) -> bool:
    """Whether XLA knows every shape when these arguments are constants."""
    specialised = _specialised(function, arguments, positions) if positions else function
    try:
        module = xla.hlo_module(specialised, _specs(_without(arguments, positions)))
    except XlaCompileError:
        return False
    instructions = (each for part in module.computations for each in part.instructions)
    return not any(any(each.shape.is_dynamic_dimension) for each in instructions)


def _specialised(
    function: ConcreteFunction, arguments: Given, positions: Positions
) -> ConcreteFunction:
    """A function of the other arguments that calls this one."""
    given = _inputs(function, arguments)
    constants = {position: _value(given[position]) for position in positions}

    def call(others: list[tf.Tensor]) -> list[tf.Tensor]:
        pending = iter(others)
        for position in positions:
            if position >= len(arguments):  # what is read of a variable after this is a constant
                given[position].assign(constants[position])
        flat = [
            tf.constant(constants[i], argument.dtype) if i in constants else next(pending)
            for i, argument in enumerate(arguments)
        ]
        results = xla.call_flat(function, flat, function.captured_inputs)
        tensors = tf.nest.flatten(results, expand_composites=True)
        return [tensor for tensor in tensors if tf.is_tensor(tensor)]

    call.__name__ = xla.name_of(function)
    compiled = tf.function(call, jit_compile=xla.must_compile(function) or None, autograph=False)
    return compiled.get_concrete_function(_specs(_without(arguments, positions)))


def _without(arguments: Sequence[Each], positions: Positions) -> list[Each]:
    return [argument for i, argument in enumerate(arguments) if i not in positions]


def _specs(arguments: Given) -> list[tf.TensorSpec]:
    return [tf.TensorSpec(argument.shape, argument.dtype) for argument in arguments]
