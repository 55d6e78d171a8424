"""A tf.function with a memory limit of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import update_wrapper
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

from tf_memsafe import limits
from tf_memsafe.hook import installed
from tf_memsafe.rewrite.options import checked_options, override_options
from tf_memsafe.xla import ConcreteFunction, FunctionProxy


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


class LimitedCallable(FunctionProxy):
    """A tf.function with a limit and optimizers of its own; other attributes are the function's."""

    def __init__(self, tf_function: Any, limit: int | None, options: Mapping[str, bool]) -> None:
        self.tf_function = tf_function
        self.memory_limit = limit
        self.optimizer_options = options
        self._bound: WeakKeyDictionary[Any, LimitedCallable] = WeakKeyDictionary()
        update_wrapper(self, tf_function.python_function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with ExitStack() as stack:
            if self.optimizer_options:
                stack.enter_context(override_options(self.optimizer_options))
            if self.memory_limit is not None:
                stack.enter_context(installed())
                stack.enter_context(limits.override(limits.Limit(self.memory_limit)))
            return self.tf_function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        if instance not in self._bound:
            bound = self.tf_function.__get__(instance, owner)
            self._bound[instance] = LimitedCallable(
                bound, self.memory_limit, self.optimizer_options
            )
        return self._bound[instance]

    def functions_to_save(self, traced: list[ConcreteFunction]) -> list[ConcreteFunction]:
        """For each signature the program that keeps to the limit, which needs no tf_memsafe."""
        if self.memory_limit is None and limits.current_limit() is None:
            return traced
        limited = tf.function(self.__call__, autograph=False)
        signatures = [each.structured_input_signature for each in traced]
        return [limited.get_concrete_function(*args, **kwargs) for args, kwargs in signatures]
