"""Stands between every tf.function and its call while a memory limit is set."""

from __future__ import annotations

import operator
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from tf_memsafe import limits, xla
from tf_memsafe.bound import executor_bytes
from tf_memsafe.constant import ConstantsFunction, Positions, constant_inputs, values_of
from tf_memsafe.deferred import Call, can_be_deferred, defer, original, reads_data
from tf_memsafe.errors import warn_once
from tf_memsafe.function import LimitedFunction, leave
from tf_memsafe.limits import Limit
from tf_memsafe.reasons import open_shapes, other_device
from tf_memsafe.rewrite.options import get_optimizer_options, options_key, override_options
from tf_memsafe.self_check import self_check
from tf_memsafe.xla import ConcreteFunction

_lock = threading.RLock()
_LIMITED = "_tf_memsafe"
"""The attribute of a concrete function that holds its limited functions: they die with it."""


MOST_KNOWN = 32
"""For how many shapes, constants, limits and optimizers a function's programs are kept."""


class _Hook:
    holders = 0  # the process's limit, the blocks and the calls that need it


def set_memory_limit(limit: object, scope: str = "all") -> None:
    """Holds every tf.function to a limit from now on; None removes it.

    limit: bytes as an int, a size such as "8GB" or "1.5GiB", "auto" for what is free now, or None.
    What a call needs at once (arguments, results and temporaries, as XLA counts them) then stays
    within the limit, or the call raises MemoryLimitError before anything is allocated.
    scope: "jit" for functions with `jit_compile=True` alone. With "all", a function without it
    whose tensors together may exceed the limit is compiled by XLA; one that XLA cannot compile runs
    as it is, with a warning.

    Raises:
        ValueError: for anything else; the limit stays as it was.
        IncompatibleTensorFlowError: for a TensorFlow that has changed what is relied on.

    Example: `tf_memsafe.set_memory_limit("8GB")`
    """
    checked = limits.checked_limit(limit, scope)
    with _lock:
        had_one = limits.process_limit() is not None
        if checked.bytes is not None and not had_one:
            _install()
        elif checked.bytes is None and had_one:
            _remove()
        limits.set_global(checked)


def get_memory_limit() -> int | None:
    """The limit in force here, in bytes; None if there is none."""
    return limits.current_limit()


@contextmanager
def memory_limit(limit: object, scope: str = "all") -> Iterator[None]:
    """A limit (as in `set_memory_limit`) for the calls inside the block, in this thread only.

    Raises:
        ValueError: for what is not a limit, or not a scope.

    Example: `with tf_memsafe.memory_limit("500MB"): values, indices = knn(queries, points)`
    """
    with installed(), limits.override(limits.checked_limit(limit, scope)):
        yield


@contextmanager
def installed() -> Iterator[None]:
    """Every call goes through the hook in the block."""
    with _lock:
        _install()
    try:
        yield
    finally:
        with _lock:
            _remove()


def _install() -> None:
    self_check()
    _Hook.holders += 1
    if _Hook.holders == 1:
        xla.intercept_calls(_call)


def _remove() -> None:
    _Hook.holders -= 1
    if _Hook.holders == 0:
        xla.release_calls()


def _call(
    function: ConcreteFunction, tensor_inputs: list[tf.Tensor], captured_inputs: list[tf.Tensor]
) -> Any:
    """What a concrete function's call comes to while the hook is there (TensorFlow's names)."""
    limit = limits.in_force()
    if not _is_for_itself(function, captured_inputs, limit) or _known(function).is_tangent_of_op:
        return xla.call_flat(function, tensor_inputs, captured_inputs)
    if can_be_deferred(function, tensor_inputs) and open_shapes(function, tensor_inputs):
        return defer(function, tensor_inputs, _later(limit))
    limited = _known(function).under(function, limit, tensor_inputs)
    if limited is None:
        return _as_written(function, tensor_inputs, captured_inputs)
    inputs = [*tensor_inputs, *captured_inputs]
    watched = xla.is_watched(inputs, function)
    has_tangents = watched and bool(xla.with_tangents(inputs))
    if limited.runs_as_written_for(watched, has_tangents):
        return _as_written(function, tensor_inputs, captured_inputs)
    return xla.pack_outputs(function, limited(limited.values(tensor_inputs), watched))


def _as_written(
    function: ConcreteFunction, arguments: Sequence[tf.Tensor], captured: Sequence[tf.Tensor]
) -> Any:
    """TensorFlow's own call; what calls inside of it raise is raised as it was."""
    try:
        return xla.call_flat(function, arguments, captured)
    except tf.errors.OpError as error:
        raised = original(error)
        if raised is error:
            raise
    raise raised


def _is_for_itself(function: ConcreteFunction, captured: Sequence[tf.Tensor], limit: Limit) -> bool:
    """Whether a call is one to hold to a limit; what is called inside of it is no longer."""
    if limit.bytes is None or not _captures(function, captured):
        return False
    return tf.executing_eagerly() or _is_traced_alone(function)


def _later(limit: Limit) -> Call:
    """Calls a function under the limit and the optimizers that are in force now."""
    optimizers = get_optimizer_options()

    def call(function: ConcreteFunction, arguments: list[tf.Tensor]) -> list[tf.Tensor]:
        with limits.override(limit), override_options(optimizers):
            results = _call(function, arguments, function.captured_inputs)
        return [t for t in tf.nest.flatten(results, expand_composites=True) if tf.is_tensor(t)]

    return call


def _known(function: ConcreteFunction) -> _Known:
    known: _Known | None = vars(function).get(_LIMITED)
    if known is None:
        known = vars(function).setdefault(_LIMITED, _Known(function))
    return known


def _captures(function: ConcreteFunction, captured_inputs: Sequence[tf.Tensor]) -> bool:
    """Whether a call is the user's: TensorFlow's own backward passes bring other captures."""
    own = function.captured_inputs
    return len(own) == len(captured_inputs) and all(map(operator.is_, own, captured_inputs))


def _is_traced_alone(function: ConcreteFunction) -> bool:
    """Whether a call that is being traced is held to the limit for itself.

    What XLA compiles around it, and what is not compiled at all, is cut with all it calls; but for
    a function that reads data from an iterator, which XLA cannot compile. Replicas wait for each
    other: what they call without `jit_compile=True` is left together.
    """
    if not tf.inside_function():
        return False
    alone = xla.must_compile(function) or (reads_data() and not tf.distribute.has_strategy())
    return alone and not xla.is_compiled_around()


class _Known:
    """What came of one function, by limit, optimizers, shapes and values of constant arguments."""

    def __init__(self, function: ConcreteFunction) -> None:
        self.is_tangent_of_op = xla.is_tangent_of_op(function)  # too slow to ask at each call
        shapes = [argument.shape for argument in xla.arguments_of(function)]
        self._has_open_shapes = not all(shape.is_fully_defined() for shape in shapes)
        self._constants: Positions | None = None  # not known before one is asked for
        self._found: dict[Any, LimitedFunction | None] = {}

    def under(
        self, function: ConcreteFunction, limit: Limit, arguments: Sequence[tf.Tensor]
    ) -> LimitedFunction | None:
        """None if the function is left alone."""
        try:
            return self._found[self._key(function, limit, arguments)]
        except KeyError:
            with _lock:
                return self._find(function, limit, arguments)

    def _key(self, function: ConcreteFunction, limit: Limit, arguments: Sequence[tf.Tensor]) -> Any:
        shapes = [tuple(a.shape) for a in arguments] if self._has_open_shapes else ()
        values = values_of(function, arguments, self._constants) if self._constants else ()
        return limit, options_key(), *shapes, values

    def _find(
        self, function: ConcreteFunction, limit: Limit, arguments: Sequence[tf.Tensor]
    ) -> LimitedFunction | None:
        key = self._key(function, limit, arguments)
        if key in self._found:  # by another thread
            return self._found[key]
        is_held = _is_held(function, arguments, limit)
        if is_held and self._constants is None:
            self._constants = constant_inputs(function, arguments)
            key = self._key(function, limit, arguments)
        if not self._has_room(function):
            return None
        self._found[key] = self._limited(function, limit, arguments) if is_held else None
        return self._found[key]

    def _limited(
        self, function: ConcreteFunction, limit: Limit, arguments: Sequence[tf.Tensor]
    ) -> LimitedFunction:
        assert limit.bytes is not None
        optimizers, constants = get_optimizer_options(), self._constants
        if constants and values_of(function, arguments, constants) is not None:
            return ConstantsFunction(function, arguments, constants, limit.bytes, optimizers)
        specs = [tf.TensorSpec(argument.shape, argument.dtype) for argument in arguments]
        return LimitedFunction(function, specs, limit.bytes, optimizers)

    def _has_room(self, function: ConcreteFunction) -> bool:
        """Makes room where none is left, by forgetting what has been known for longest.

        Not for more values of a function that is compiled for the limit's sake alone: a position
        that runs through the data would have each step of a loop compiled.
        """
        if len(self._found) < MOST_KNOWN:
            return True
        many, does, advice = "shapes", "compiles it for each", "pad its arguments to a few sizes"
        if self._constants:
            names = ", ".join(function.inputs[i].op.name for i in self._constants)
            many, advice = f"values of {names}", "XLA has to know them, so give it few"
        if has_room := xla.must_compile(function) or not self._constants:
            del self._found[next(iter(self._found))]
        else:
            does = "leaves it as it is for others"
        planned = (
            f"tf_memsafe has planned {xla.name_of(function)} for more than {MOST_KNOWN} {many}"
        )
        warn_once(f"{planned}, and {does}: {advice}", function.graph)
        return has_room


def _is_held(function: ConcreteFunction, arguments: Sequence[tf.Tensor], limit: Limit) -> bool:
    """Whether a limit holds for a function; warns of the reason if one that it is for is left."""
    assert limit.bytes is not None
    compiled = xla.must_compile(function)
    if not compiled:
        if limit.scope == "jit":
            return False
        bound = executor_bytes(function.graph)
        if bound is not None and bound <= limit.bytes:
            return False
    reason = open_shapes(function, arguments)
    if reason is not None and _is_held_around(limit):
        return False
    reason = reason or (None if compiled else other_device(function))
    if reason is not None:
        leave(function, reason)
    return reason is None


def _is_held_around(limit: Limit) -> bool:
    """Whether a call that is traced is part of one that is held to the limit when it is run.

    Then all shapes are known; and if it has to be left as it is, that has a warning of its own.
    """
    return limit.scope == "all" and xla.is_called_around() and not reads_data()
