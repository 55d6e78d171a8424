"""`tf_memsafe.function`: a limit for one function alone."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import LIMIT, assert_same, compiled, kernel, points_and_weights
from tf_memsafe import MemoryLimitError
from tf_memsafe.executable import Executable

Runs = list[Executable]


def test_only_the_decorated_function_has_the_limit(rewritten_runs: Runs) -> None:
    other, (x, v) = compiled(kernel), points_and_weights()
    limited = tf_memsafe.function(memory_limit=LIMIT)(kernel)
    expected = other(x, v)
    assert_same(limited(x, v), expected)
    assert len(rewritten_runs) == 1
    assert_same(other(x, v), expected)
    assert len(rewritten_runs) == 1
    assert tf_memsafe.get_memory_limit() is None


def test_it_is_compiled_and_keeps_its_name() -> None:
    @tf_memsafe.function(memory_limit="1MB")
    def documented(x: tf.Tensor) -> tf.Tensor:
        """What it does."""
        return x + 1

    assert documented.__name__ == "documented"
    assert documented.__doc__ == "What it does."
    concrete = documented.get_concrete_function(tf.TensorSpec([2]))
    assert concrete.function_def.attr["_XlaMustCompile"].b


def test_without_arguments_the_limit_in_force_holds(rewritten_runs: Runs) -> None:
    function, (x, v) = tf_memsafe.function(kernel), points_and_weights()
    function(x, v)
    assert rewritten_runs == []
    with tf_memsafe.memory_limit(LIMIT):
        function(x, v)
    assert len(rewritten_runs) == 1


def test_its_own_limit_comes_first() -> None:
    x, v = points_and_weights()
    with tf_memsafe.memory_limit("1MB"), pytest.raises(MemoryLimitError, match=r"8\.90 kB"):
        tf_memsafe.function(memory_limit=8_900)(kernel)(x, v)
    with tf_memsafe.memory_limit(8_900):
        tf_memsafe.function(memory_limit="1MB")(kernel)(x, v)


def test_the_options_of_a_tf_function(rewritten_runs: Runs) -> None:
    specs = [tf.TensorSpec([None, size], tf.float64) for size in (3, 4)]
    function = tf_memsafe.function(kernel, memory_limit=LIMIT, input_signature=specs)
    x, v = points_and_weights()
    assert_same(function(x, v), kernel(x, v))
    assert_same(function(x[:90], v[:90]), kernel(x[:90], v[:90]))
    assert function.experimental_get_tracing_count() == 1
    assert len(rewritten_runs) == 2


def test_a_function_without_jit_compile_is_held_to_it_too(rewritten_runs: Runs) -> None:
    function = tf_memsafe.function(kernel, memory_limit=LIMIT, jit_compile=False)
    x, v = points_and_weights()
    assert_same(function(x, v), kernel(x, v))
    assert len(rewritten_runs) == 1


def test_methods(rewritten_runs: Runs) -> None:
    class Model(tf.Module):
        def __init__(self, scale: float) -> None:
            self.scale = tf.Variable(scale, dtype=tf.float64)

        @tf_memsafe.function(memory_limit=LIMIT)
        def __call__(self, x: tf.Tensor, *, v: tf.Tensor) -> Any:
            return {"scaled": self.scale * kernel(x, v)}

    x, v = points_and_weights()
    for scale in (2.0, 3.0):
        assert_same(Model(scale)(x, v=v), {"scaled": scale * kernel(x, v)})
    assert len(rewritten_runs) == 2
    assert len(set(map(id, rewritten_runs))) == 2


def test_a_method_is_traced_once_for_each_object() -> None:
    traced: list[float] = []

    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        @tf_memsafe.function(memory_limit="1MB")
        def scaled(self, x: tf.Tensor) -> tf.Tensor:
            traced.append(self.scale)
            return self.scale * x

    for model in (Model(2.0), Model(3.0)):
        for _ in range(3):
            model.scaled(tf.ones([2]))
    assert traced == [2.0, 3.0]


def test_gradients(rewritten_runs: Runs) -> None:
    x, v = points_and_weights()
    gradients = []
    for function in (kernel, tf_memsafe.function(kernel, memory_limit=LIMIT)):
        with tf.GradientTape() as tape:
            tape.watch(v)
            y = function(x, v)
        gradients.append(tape.gradient(y, v))
    assert_same(gradients[1], gradients[0])
    assert len(rewritten_runs) == 2


def test_an_exception_in_the_function_ends_its_limit() -> None:
    @tf_memsafe.function(memory_limit=LIMIT)
    def failing(x: tf.Tensor) -> tf.Tensor:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        failing(tf.ones([2]))
    assert tf_memsafe.get_memory_limit() is None


@pytest.mark.parametrize("limit", [0, "lots", 1.5])
def test_an_invalid_limit(limit: Any) -> None:
    with pytest.raises(ValueError, match="is not a memory limit"):
        tf_memsafe.function(memory_limit=limit)
