"""The program that tf_memsafe makes of naive code, without what it takes to make it.

It is compiled once, as by tf_memsafe, and run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import tensorflow as tf

import tf_memsafe
from contenders.naive import start
from tf_memsafe.executable import Executable, compile_graph, tensor_spec

__all__ = ["program", "start"]


def program(data: dict[str, Any], of: str, **options: Any) -> Callable[[], Any]:
    """Calls the program of "module.function" on zeros; the first call compiles it."""
    module, function = of.split(".")
    getattr(import_module(f"contenders.{module}"), function)(data, **options)()
    details = tf_memsafe.last_reports()[-1].details
    assert details is not None
    graph, constants = details.used.graph, details.used.constants
    assert graph is not None
    specs = [tensor_spec(type_) for type_ in graph.types[: len(graph.types) - len(constants)]]
    values = [tf.zeros(spec.shape, spec.dtype) for spec in specs]

    @cache
    def compiled() -> Executable:
        return compile_graph(graph, constants, for_calls=True)

    return lambda: compiled()(values)
