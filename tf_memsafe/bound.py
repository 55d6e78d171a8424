"""How much memory TensorFlow can need for a function that it runs op by op, without XLA."""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

from tf_memsafe import xla

LOOPS = {"While", "StatelessWhile"}
NEW_LISTS = {"TensorListReserve": 1, "EmptyTensorList": 1}
"""Ops that make a list of tensors: which operand says how many elements it has room for."""

FILLS_LISTS = {"TensorListSetItem": 2, "TensorListPushBack": 1}
"""Ops that put a tensor into a list: which operand that is."""

DATA = {"IteratorGetNext", "IteratorGetNextAsOptional", "OptionalGetValue"}
"""Ops whose results are a data set's elements, which the data set makes."""

HELD = "tf_memsafe_held"
"""In the name of an op that makes a call which is held to the limit by itself."""

UNREAD = "redundant_placeholder"
"""In the name of what a loop's condition is given and does not look at."""

PASSES_ON = {"Identity", "IdentityN", "PreventGradient", "StopGradient"}
"""Ops whose results are the very buffers that they are given: an unknown size is counted there."""

HOLDERS = {*NEW_LISTS, *FILLS_LISTS, *LOOPS, "If", "StatelessIf", "Placeholder", "Identity"}
HOLDERS |= {*DATA, "OptionalFromValue", "OptionalNone"}
"""Ops whose lists and optionals hold no tensor that is not counted elsewhere."""

STRING_BYTES = 24
"""Of a string without its text, of which nothing is known. XLA knows no strings, so this tells only
which functions with strings are worth a warning."""


def executor_bytes(graph: tf.Graph) -> int | None:
    """Bytes of every tensor of a traced function together; None where a size is not known.

    TensorFlow's executor keeps a tensor until its last use, so it needs no more, but for what a
    kernel takes for itself. The body of a loop counts as often as it is run side by side, what it
    puts into a list as often as the list has room for. Variables are there before the call; what
    is read of them counts.

    Example: `executor_bytes(function.get_concrete_function(x).graph)`
    """
    return _total(map(_operation_bytes, graph.get_operations()))


def _operation_bytes(operation: tf.Operation) -> int | None:
    bodies = xla.called_graphs(operation)
    own = _total(_result_bytes(result) for result in operation.outputs)
    inside = _total(map(executor_bytes, bodies))
    if operation.type not in LOOPS:
        return _total((own, inside))
    listed = _total(_listed_bytes(operation, body) for body in bodies)
    at_once = operation.get_attr("parallel_iterations")
    return None if inside is None else _total((own, listed, at_once * inside))


def _listed_bytes(loop: tf.Operation, body: tf.Graph) -> int | None:
    """Of all that the steps of a loop put into lists."""
    fills = [each for each in body.get_operations() if each.type in FILLS_LISTS]
    each_step = _total(_result_bytes(fill.inputs[FILLS_LISTS[fill.type]]) for fill in fills)
    makers = [operand.op for operand in loop.inputs if operand.op.type in NEW_LISTS]
    counts = [tf.get_static_value(maker.inputs[NEW_LISTS[maker.type]]) for maker in makers]
    if each_step == 0:
        return 0
    if each_step is None or not counts or any(count is None or count < 0 for count in counts):
        return None
    return int(max(counts)) * each_step


def _result_bytes(result: tf.Tensor) -> int | None:
    operation = result.op
    if result.dtype == tf.resource or operation.type in DATA or HELD in operation.name:
        return 0
    if result.dtype == tf.variant and operation.type in HOLDERS:
        return 0
    if operation.type == "TensorListFromTensor":
        return _result_bytes(operation.inputs[0])
    if result.dtype == tf.variant or not result.shape.is_fully_defined():
        return 0 if operation.type in PASSES_ON or UNREAD in operation.name else None
    return int(result.shape.num_elements() * (result.dtype.size or STRING_BYTES))


def _total(sizes: Iterable[int | None]) -> int | None:
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total
