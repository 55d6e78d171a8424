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
from tf_memsafe.errors import warn_once
from tf_memsafe.function import LimitedFunction, leave
from tf_memsafe.limits import Limit
from tf_memsafe.reasons import open_shapes, other_device
from tf_memsafe.rewrite.options import get_optimizer_options, options_key
from tf_memsafe.self_check import self_check
from tf_memsafe.xla import ConcreteFunction

_lock = threading.RLock()
_LIMITED = "_tf_memsafe"
"""The attribute of a concrete function that holds its limited functions: they die with it."""


MOST_KNOWN = 32
"""For how many shapes, limits and optimizers a function's programs are kept."""


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
    limited = _limited(function, tensor_inputs, captured_inputs)
    if limited is None:
        return xla.call_flat(function, tensor_inputs, captured_inputs)
    inputs = [*tensor_inputs, *captured_inputs]
    watched = xla.is_watched(inputs, function)
    if watched and xla.has_tangents(inputs):
        if not limited.runs_as_written:
            leave(function, "a tf.autodiff.ForwardAccumulator watches it; open that inside of it")
        return xla.call_flat(function, tensor_inputs, captured_inputs)
    if limited.runs_as_written_for(watched):
        return xla.call_flat(function, tensor_inputs, captured_inputs)
    return xla.pack_outputs(function, limited(limited.values(tensor_inputs), watched))


def _limited(
    function: ConcreteFunction, arguments: Sequence[tf.Tensor], captured: Sequence[tf.Tensor]
) -> LimitedFunction | None:
    """What holds this call to the limit in force; None if the call is left alone."""
    limit = limits.in_force()
    if limit.bytes is None or not _captures(function, captured):
        return None
    if not (tf.executing_eagerly() or _is_traced_alone(function)):
        return None
    known: _Known | None = vars(function).get(_LIMITED)
    if known is None:
        known = vars(function).setdefault(_LIMITED, _Known(function))
    return known.under(function, limit, arguments)


def _captures(function: ConcreteFunction, captured_inputs: Sequence[tf.Tensor]) -> bool:
    """Whether a call is the user's: TensorFlow's own backward passes bring other captures."""
    own = function.captured_inputs
    return len(own) == len(captured_inputs) and all(map(operator.is_, own, captured_inputs))


def _is_traced_alone(function: ConcreteFunction) -> bool:
    """Whether a call that is being traced is held to the limit for itself.

    What XLA compiles around it, and what is not compiled at all, is cut with all it calls.
    """
    return tf.inside_function() and xla.must_compile(function) and not xla.is_compiled_around()


class _Known:
    """What came of one function, by limit, optimizers and shapes."""

    def __init__(self, function: ConcreteFunction) -> None:
        arguments = function.inputs[: len(function.inputs) - len(function.captured_inputs)]
        self._has_open_shapes = any(not a.shape.is_fully_defined() for a in arguments)
        self._found: dict[Any, LimitedFunction | None] = {}

    def under(
        self, function: ConcreteFunction, limit: Limit, arguments: Sequence[tf.Tensor]
    ) -> LimitedFunction | None:
        """None if the function is left alone."""
        shapes = [tuple(a.shape) for a in arguments] if self._has_open_shapes else ()
        key = (limit, options_key(), *shapes)
        try:
            return self._found[key]
        except KeyError:
            with _lock:
                if key not in self._found:
                    self._make_room(function)
                    self._found[key] = _limit(function, arguments, limit)
                return self._found[key]

    def _make_room(self, function: ConcreteFunction) -> None:
        """Forgets what has been known for longest, if too much is."""
        if len(self._found) < MOST_KNOWN:
            return
        del self._found[next(iter(self._found))]
        name = xla.name_of(function)
        warn_once(
            f"tf_memsafe has planned {name} for more than {MOST_KNOWN} shapes, and compiles it for "
            "each: pad its arguments to a few sizes",
            function.graph,
        )


def _limit(
    function: ConcreteFunction, arguments: Sequence[tf.Tensor], limit: Limit
) -> LimitedFunction | None:
    assert limit.bytes is not None
    compiled = xla.must_compile(function)
    if not compiled:
        if limit.scope == "jit":
            return None
        bound = executor_bytes(function.graph)
        if bound is not None and bound <= limit.bytes:
            return None
    reason = open_shapes(function, arguments) or (None if compiled else other_device(function))
    if reason is not None:
        leave(function, reason)
        return None
    specs = [tf.TensorSpec(argument.shape, argument.dtype) for argument in arguments]
    return LimitedFunction(function, specs, limit.bytes, get_optimizer_options())
