"""Why a function cannot be held to a limit, in words, with the line of the user's code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import tensorflow as tf

from tf_memsafe import devices, limits, xla
from tf_memsafe.bound import executor_bytes
from tf_memsafe.hlo.op import UnsupportedOpError
from tf_memsafe.hlo.ops.misc import DATA_SIZE
from tf_memsafe.limits import format_bytes
from tf_memsafe.source import find_operation, line_of
from tf_memsafe.xla import ConcreteFunction, XlaCompileError

OTHER_RESULTS = (
    "it changes something that is neither a result nor a variable; have it return that instead"
)
"""Why a program is not used whose results are not the function's own."""


def not_compiled(error: XlaCompileError, graph: tf.Graph) -> str:
    """What XLA has no kernel for and where it was made, or what XLA says where that is unknown."""
    operation = find_operation(graph, error.node) if error.node else None
    if operation is None:
        return str(error)
    return f"XLA cannot compile {_operation(operation)}; take it out of the function"


def unknown(error: UnsupportedOpError, graph: tf.Graph) -> str:
    """What tf_memsafe has no op for, and where it was made."""
    operation = find_operation(graph, error.source.op_name) if error.source else None
    if error.opcode == DATA_SIZE and operation is not None:
        made = f"the size of what {_operation(operation)} makes is data"
        return f"{made}; keep to sizes that are known (a mask in place of a selection, say)"
    origin = f" ({_operation(operation)})" if operation is not None else ""
    return f"tf_memsafe has no op for XLA's {error.opcode!r}{origin}; take it out of the function"


def other_device(function: ConcreteFunction) -> str | None:
    """The first operation that is not to run where the function is called; None if there is none.

    A program of XLA runs on one device.
    """
    own = tf.DeviceSpec.from_string(devices.current())
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


def dropped(name: str, failure: str) -> str:
    """What became of a program that was made for a function of this name, and what to do."""
    advice = "another one is used if it fits; another limit may help, and so does reporting this"
    return f"drops a program that it wrote for {name}: {failure}; {advice}"


def at_stake(graph: tf.Graph) -> str:
    """What a function may need that is left as it is: of all its tensors, and of the largest."""
    total, limit = executor_bytes(graph), limits.current_limit()
    start = "" if limit is None else f"The limit is {format_bytes(limit)}; "
    if total is None:
        return f"{start}how much it needs is not known{_largest(graph)}"
    return f"{start}its tensors take {format_bytes(total)} together{_largest(graph)}"


def _largest(graph: tf.Graph) -> str:
    """The largest tensor whose size is known, and where it is made."""
    results = [result for operation in _operations(graph) for result in operation.outputs]
    known = [each for each in results if each.shape.is_fully_defined() and each.dtype.size]
    if not known:
        return ""
    largest = max(known, key=_bytes)
    type_ = f"{largest.dtype.name}{largest.shape.as_list()}"
    line = line_of(largest.op)
    at = f" at {line}" if line else ""
    return f", the largest that is known {format_bytes(_bytes(largest))}: {type_}{at}"


def _operations(graph: tf.Graph) -> Iterator[tf.Operation]:
    """Those of a function and of the functions that it calls."""
    for operation in graph.get_operations():
        yield operation
        for called in xla.called_graphs(operation):
            yield from _operations(called)


def _bytes(tensor: tf.Tensor) -> int:
    return int(tensor.shape.num_elements() * tensor.dtype.size)


def _operation(operation: tf.Operation) -> str:
    line = line_of(operation)
    return f"{operation.type} at {line}" if line else operation.type


def _differs(asked: object, own: object) -> bool:
    return asked is not None and asked != own
