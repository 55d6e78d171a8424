"""`explain`: what the limit would do to a function, without running it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tf_memsafe import limits, xla
from tf_memsafe.constant import MOST_ELEMENTS, with_constants
from tf_memsafe.decorator import LimitedCallable
from tf_memsafe.proof import prove
from tf_memsafe.reasons import not_compiled
from tf_memsafe.report import Report, report_on
from tf_memsafe.rewrite.options import checked_options, get_optimizer_options
from tf_memsafe.xla import ConcreteFunction, XlaCompileError


def explain(
    function: Callable[..., Any],
    *args: Any,
    memory_limit: object = None,
    optimizer_options: Mapping[str, bool] | None = None,
    **kwargs: Any,
) -> Report:
    """What a limit does to a call of `function`: nothing is run, nothing of its size allocated.

    function: a tf.function, a concrete function, a `tf_memsafe.function` or a plain callable.
    args, kwargs: as for the call; a tf.TensorSpec may stand for any tensor whose value XLA does not
        have to know.
    memory_limit: as in `set_memory_limit`; left out, the limit in force, or none, and then the
    report is on the function as it is. It may be larger than this machine's memory.
    optimizer_options: as in `set_optimizer_options`; those left out are as they would be at a call.

    Raises:
        ValueError: for what is not a limit or an optimizer, or for a shape that is not fully known.
        tf_memsafe.xla.XlaCompileError: when XLA cannot compile the function.

    Example: `print(explain(knn, tf.TensorSpec([20_000, 3]), points, memory_limit="1GB"))`
    """
    limit = limits.parse_limit(memory_limit)
    options = checked_options(optimizer_options)
    if isinstance(function, LimitedCallable):
        limit = function.memory_limit if limit is None else limit
        options = {**function.optimizer_options, **options}
        function = function.tf_function
    limit = limits.current_limit() if limit is None else limit
    concrete = _concrete(function, args, kwargs)
    arguments = xla.flat_arguments(concrete, args, kwargs, MOST_ELEMENTS)
    optimizers = {**get_optimizer_options(), **options}
    try:
        concrete, specs = with_constants(concrete, arguments)
        proof = prove(concrete, specs, limit, optimizers)
    except XlaCompileError as error:
        reason = not_compiled(error, concrete.graph)
        raise XlaCompileError(f"{xla.name_of(concrete)} cannot be explained: {reason}") from error
    return report_on(proof, concrete)


def _concrete(function: Any, args: Any, kwargs: Any) -> ConcreteFunction:
    if isinstance(function, tf.types.experimental.ConcreteFunction):
        return function
    if not hasattr(function, "get_concrete_function"):
        function = tf.function(function, jit_compile=True)
    return function.get_concrete_function(*args, **kwargs)
