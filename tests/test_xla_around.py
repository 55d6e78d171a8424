"""What runs around a call that is traced: TensorFlow's frames are as `xla.py` takes them to be."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import tensorflow as tf

from tf_memsafe import xla
from tf_memsafe.xla import ConcreteFunction

ORIGINAL = ConcreteFunction._call_flat


def seen_by_an_inner_call(outer: Callable[..., Any], found: Callable[[], bool]) -> list[bool]:
    """What is found where a tf.function inside of `outer` is called, and so traced."""
    seen: list[bool] = []

    def intercepted(function: ConcreteFunction, *tensors: list[tf.Tensor]) -> Any:
        if tf.inside_function():
            seen.append(found())
        return ORIGINAL(function, *tensors)

    xla.intercept_calls(intercepted)
    try:
        outer()
    finally:
        xla.release_calls()
    return seen


def around(**options: Any) -> Any:
    inner = tf.function(tf.square)
    return tf.function(lambda x: inner(x) + 1, **options)


@pytest.mark.parametrize("jit_compile", [True, False, None])
def test_what_is_compiled_around_a_call_is_known(jit_compile: bool | None) -> None:
    outer = around(jit_compile=jit_compile)
    found = seen_by_an_inner_call(lambda: outer(tf.ones([3])), xla.is_compiled_around)
    assert set(found) == {bool(jit_compile)}


def test_a_function_that_is_called_around_is_told_from_one_that_is_traced() -> None:
    called, traced = around(), around()
    seen = seen_by_an_inner_call(lambda: called(tf.ones([3])), xla.is_called_around)
    assert set(seen) == {True}
    trace = partial(traced.get_concrete_function, tf.TensorSpec([3]))
    assert set(seen_by_an_inner_call(trace, xla.is_called_around)) == {False}


def test_a_data_set_does_not_call_what_it_traces() -> None:
    inner = tf.function(tf.square)
    mapped = partial(tf.data.Dataset.from_tensor_slices(tf.ones([3])).map, inner)
    assert set(seen_by_an_inner_call(mapped, xla.is_called_around)) == {False}
