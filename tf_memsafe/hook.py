"""Stands between every tf.function and its call while a memory limit is set."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import update_wrapper
from typing import Any

import tensorflow as tf

from tf_memsafe import limits, xla
from tf_memsafe.function import LimitedFunction
from tf_memsafe.rewrite.options import checked_options, get_optimizer_options, override_options
from tf_memsafe.self_check import self_check
from tf_memsafe.xla import ConcreteFunction

_lock = threading.RLock()
_LIMITED = "_tf_memsafe"
"""The attribute of a concrete function that holds its limited functions: they die with it."""


class _Hook:
    holders = 0  # the process's limit, the blocks and the calls that need it


def set_memory_limit(limit: object) -> None:
    """Holds every function with `jit_compile=True` to a limit from now on; None removes it.

    limit: bytes as an int, a size such as "8GB" or "1.5GiB", "auto" for what is free now, or None.
    What a call needs at once (arguments, results and temporaries, as XLA counts them) then stays
    within the limit, or the call raises MemoryLimitError before anything is allocated.

    Raises:
        ValueError: for anything else; the limit stays as it was.
        IncompatibleTensorFlowError: for a TensorFlow that has changed what is relied on.

    Example: `tf_memsafe.set_memory_limit("8GB")`
    """
    parsed = limits.parse_limit(limit)
    with _lock:
        had_one = limits.process_limit() is not None
        if parsed is not None and not had_one:
            _install()
        elif parsed is None and had_one:
            _remove()
        limits.set_global(parsed)


def get_memory_limit() -> int | None:
    """The limit in force here, in bytes; None if there is none."""
    return limits.current_limit()


@contextmanager
def memory_limit(limit: object) -> Iterator[None]:
    """A limit (as in `set_memory_limit`) for the calls inside the block, in this thread only.

    Raises:
        ValueError: for what is not a limit.

    Example: `with tf_memsafe.memory_limit("500MB"): values, indices = knn(queries, points)`
    """
    with _installed(), limits.override(limits.parse_limit(limit)):
        yield


def function(
    python_function: Callable[..., Any] | None = None,
    *,
    memory_limit: object = None,
    optimizer_options: Mapping[str, bool] | None = None,
    **tf_function_kwargs: Any,
) -> Any:
    """`tf.function(jit_compile=True)` with a memory limit of its own, for this function alone.

    memory_limit: as in `set_memory_limit`; None for the limit in force at each call.
    optimizer_options: as in `set_optimizer_options`; optimizers that are left out are on or off as
    for all functions. The other arguments are tf.function's.

    Raises:
        ValueError: for what is not a limit, or not an optimizer.

    Example:
        @tf_memsafe.function(memory_limit="1GB", optimizer_options={"distance": False})
        def kernel_times_vector(x, v): ...
    """
    parsed, switched = limits.parse_limit(memory_limit), checked_options(optimizer_options)

    def decorate(wrapped: Callable[..., Any]) -> LimitedCallable:
        options = {"jit_compile": True, **tf_function_kwargs}
        return LimitedCallable(tf.function(wrapped, **options), parsed, switched)

    return decorate if python_function is None else decorate(python_function)


class LimitedCallable:
    """A tf.function with a limit and optimizers of its own; other attributes are the function's."""

    def __init__(self, tf_function: Any, limit: int | None, options: Mapping[str, bool]) -> None:
        self.tf_function = tf_function
        self.memory_limit = limit
        self.optimizer_options = options
        update_wrapper(self, tf_function.python_function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with ExitStack() as stack:
            if self.optimizer_options:
                stack.enter_context(override_options(self.optimizer_options))
            if self.memory_limit is not None:
                stack.enter_context(_installed())
                stack.enter_context(limits.override(self.memory_limit))
            return self.tf_function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        bound = self.tf_function.__get__(instance, owner)
        return LimitedCallable(bound, self.memory_limit, self.optimizer_options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tf_function, name)


@contextmanager
def _installed() -> Iterator[None]:
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
    limit = limits.current_limit()
    limited = None
    if limit is not None and tf.executing_eagerly() and _captures(function, captured_inputs):
        limited = _for_call(function, tensor_inputs, limit)
    if limited is None:
        return xla.call_flat(function, tensor_inputs, captured_inputs)
    inputs = [*tensor_inputs, *captured_inputs]
    watched = xla.is_watched(inputs, function)
    if watched and xla.has_tangents(inputs):
        if not limited.runs_as_written:
            limited.leave("a tf.autodiff.ForwardAccumulator watches it")
        return xla.call_flat(function, tensor_inputs, captured_inputs)
    if limited.gradient_runs_as_written if watched else limited.runs_as_written:
        return xla.call_flat(function, tensor_inputs, captured_inputs)
    return xla.pack_outputs(function, limited(limited.values(tensor_inputs), watched))


def _captures(function: ConcreteFunction, captured_inputs: list[tf.Tensor]) -> bool:
    """Whether a call is the user's: TensorFlow's own backward passes bring other captures."""
    own = function.captured_inputs
    return len(own) == len(captured_inputs) and all(map(operator.is_, own, captured_inputs))


def _for_call(
    function: ConcreteFunction, arguments: Sequence[tf.Tensor], limit: int
) -> LimitedFunction | None:
    """The function under this limit for arguments of these shapes; None if it is left alone."""
    known: dict[Any, LimitedFunction | None] = vars(function).setdefault(_LIMITED, {})
    optimizers = get_optimizer_options()
    shapes = [tuple(argument.shape) for argument in arguments]
    key = (limit, *optimizers.values(), *shapes)
    if key not in known:
        with _lock:
            known.setdefault(key, _limit(function, arguments, limit, optimizers))
    return known[key]


def _limit(
    function: ConcreteFunction,
    arguments: Sequence[tf.Tensor],
    limit: int,
    optimizers: Mapping[str, bool],
) -> LimitedFunction | None:
    if not xla.must_compile(function):
        return None
    specs = [tf.TensorSpec(argument.shape, argument.dtype) for argument in arguments]
    return LimitedFunction(function, specs, limit, optimizers)
