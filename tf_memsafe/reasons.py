"""Why a function cannot be held to a limit, in words, with the line of the user's code."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tf_memsafe import xla
from tf_memsafe.hlo.op import UnsupportedOpError
from tf_memsafe.source import find_operation, line_of
from tf_memsafe.xla import ConcreteFunction, XlaCompileError


def not_compiled(error: XlaCompileError, graph: tf.Graph) -> str:
    """What XLA has no kernel for and where it was made, or what XLA says where that is unknown."""
    operation = find_operation(graph, error.node) if error.node else None
    if operation is None:
        return str(error)
    return f"XLA cannot compile {_operation(operation)}; take it out of the function"


def unknown(error: UnsupportedOpError, graph: tf.Graph) -> str:
    """What tf_memsafe has no op for, and where it was made."""
    operation = find_operation(graph, error.source.op_name) if error.source else None
    origin = f" ({_operation(operation)})" if operation is not None else ""
    return f"tf_memsafe has no op for XLA's {error.opcode!r}{origin}; take it out of the function"


def other_device(function: ConcreteFunction) -> str | None:
    """The first operation that is not to run where the function is called; None if there is none.

    A program of XLA runs on one device.
    """
    own = tf.DeviceSpec.from_string(xla.device())
    for operation in function.graph.get_operations():
        if operation.type == "Const":
            continue
        asked = tf.DeviceSpec.from_string(operation.device or "")
        if _differs(asked.device_type, own.device_type) or _differs(
            asked.device_index, own.device_index
        ):
            where = f"{_operation(operation)} on {operation.device}"
            return f"it runs {where}; keep the function to one device"
    return None


def open_shapes(function: ConcreteFunction, arguments: Sequence[tf.Tensor]) -> str | None:
    """The first argument whose shape is not known where the call is traced; None if all are."""
    for argument, placeholder in zip(arguments, function.inputs, strict=False):
        if not argument.shape.is_fully_defined():
            name = placeholder.op.name
            shape = f"a shape of {argument.shape} for its argument {name}"
            return f"the call is traced with {shape}; call it with tensors whose shapes are known"
    return None


def _operation(operation: tf.Operation) -> str:
    line = line_of(operation)
    return f"{operation.type} at {line}" if line else operation.type


def _differs(asked: object, own: object) -> bool:
    return asked is not None and asked != own
