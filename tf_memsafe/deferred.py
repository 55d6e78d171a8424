"""Calls of which the shapes are known only when they are run: with a data set's last batch, say."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_memsafe import xla
from tf_memsafe.bound import DATA, HELD
from tf_memsafe.derivative import Values, is_differentiable
from tf_memsafe.xla import ConcreteFunction

_KEPT = "_tf_memsafe_deferred"
"""The attribute of a graph that keeps the functions it calls through Python alive."""

_raised: deque[Exception] = deque(maxlen=8)
"""What was raised by calls that Python made for TensorFlow, which passes on the words alone."""

Call = Callable[[ConcreteFunction, list[tf.Tensor]], list[tf.Tensor]]
"""Runs a function, eagerly, on arguments that are there: its flat results."""


def reads_data() -> bool:
    """Whether the function (or loop, or branch) that is traced now takes data from an iterator.

    XLA can compile nothing around that.
    """
    operations = tf.compat.v1.get_default_graph().get_operations()
    return any(operation.type in DATA for operation in operations)


def can_be_deferred(function: ConcreteFunction, arguments: Values) -> bool:
    """Whether a call that is traced may be left to Python, with the tensors of each run.

    Only where data is read from an iterator: no such function is saved for use elsewhere, which
    what Python runs would not survive. A tape that is open would not see what is run.
    """
    if tf.executing_eagerly():
        return False
    captured = function.captured_inputs
    if any(map(tf.is_symbolic_tensor, captured)):
        return False
    values = [*arguments, *xla.result_specs(function)]
    if any(value.dtype in (tf.resource, tf.variant) for value in values):
        return False
    return reads_data() and not xla.is_watched([*arguments, *captured], function)


def defer(function: ConcreteFunction, arguments: Values, call: Call) -> Any:
    """Traces a call that is made through `call` each time it is run: the function's results."""
    specs, count = xla.result_specs(function), len(arguments)
    kept = weakref.ref(function)  # TensorFlow keeps what Python runs for ever

    def run(*tensors: tf.Tensor) -> list[tf.Tensor]:
        found = kept()
        assert found is not None
        try:
            with xla.unrecorded():
                return call(found, list(tensors[:count]))
        except Exception as error:
            _raised.append(error)
            raise

    graph = tf.compat.v1.get_default_graph()
    setattr(graph, _KEPT, [*getattr(graph, _KEPT, ()), function])
    # The captured variables say what the call waits for, and what waits for it.
    inputs = [*arguments, *function.captured_inputs]
    called = tf.py_function(run, inputs, [spec.dtype for spec in specs], name=HELD)
    results = called if specs else []
    for result, spec in zip(results, specs, strict=True):
        result.set_shape(spec.shape)
    return xla.pack_outputs(function, [_without_gradient(each, function) for each in results])


def original(error: tf.errors.OpError) -> Exception:
    """What a call that Python made raised, for the error that TensorFlow made of it."""
    for raised in _raised:
        if str(raised) and str(raised) in str(error):
            _raised.remove(raised)
            return raised
    return error


def _without_gradient(result: tf.Tensor, function: ConcreteFunction) -> tf.Tensor:
    """The result, of which a gradient is an error instead of none."""
    if not is_differentiable(result):
        return result
    message = (
        f"{xla.name_of(function)} is called on a data set's elements of open shapes: a tape around "
        "the function that reads them does not see it; open the tape inside of it"
    )
    return tf.raw_ops.PreventGradient(input=result, message=message)
