"""What the hook leaves as it was, while it is there and after."""

from __future__ import annotations

import pickle
import traceback
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import tf_memsafe
from tests.processes import run
from tests.programs import LIMIT, assert_same, compiled, kernel, points_and_weights
from tf_memsafe.executable import Executable
from tf_memsafe.xla import ConcreteFunction

Runs = list[Executable]

IMPORTED = """
import json
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import concrete_function
members = dict(vars(concrete_function.ConcreteFunction)), dict(vars(type(tf.function(abs))))
import tf_memsafe
now = dict(vars(concrete_function.ConcreteFunction)), dict(vars(type(tf.function(abs))))
tf_memsafe.set_memory_limit("1GB")
patched = [k for k, v in vars(concrete_function.ConcreteFunction).items() if members[0][k] is not v]
tf_memsafe.set_memory_limit(None)
after = dict(vars(concrete_function.ConcreteFunction)), dict(vars(type(tf.function(abs))))
same = lambda one, other: all(a == b for a, b in zip(one, other))
print(json.dumps({
    "import": same(members, now), "patched": patched, "removal": same(members, after)
}))
"""


def test_importing_patches_nothing_and_removing_the_limit_puts_all_back() -> None:
    found = run("-c", IMPORTED)
    assert found == {"import": True, "patched": ["_call_flat"], "removal": True}


def test_the_very_same_method_is_back() -> None:
    before = ConcreteFunction._call_flat
    tf_memsafe.set_memory_limit(LIMIT)
    with tf_memsafe.memory_limit(LIMIT):
        assert ConcreteFunction._call_flat is not before
    tf_memsafe.set_memory_limit(None)
    assert ConcreteFunction._call_flat is before


def test_what_a_function_tells_of_itself() -> None:
    function, (x, v) = compiled(kernel), points_and_weights()

    def told() -> list[Any]:
        concrete = function.get_concrete_function(x, v)
        return [
            function.experimental_get_compiler_ir(x, v)(stage="hlo"),
            function.pretty_printed_concrete_signatures(),
            function.python_function,
            concrete.structured_outputs,
            concrete.pretty_printed_signature(),
            concrete is function.get_concrete_function(x, v),
        ]

    function(x, v)
    expected = told()
    with tf_memsafe.memory_limit(LIMIT):
        function(x, v)
        assert told() == expected


class Holder:
    """An object of the user's that has been through a call."""

    def __init__(self) -> None:
        self.power = 2

    def apply(self, x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        return kernel(x, v) ** self.power


def test_objects_can_be_pickled() -> None:
    holder, (x, v) = Holder(), points_and_weights()
    with tf_memsafe.memory_limit(LIMIT):
        compiled(holder.apply)(x, v)
    assert pickle.loads(pickle.dumps(holder)).power == 2


def test_a_users_error_points_to_the_users_line() -> None:
    @tf.function(jit_compile=True)
    def wrong(x: tf.Tensor) -> tf.Tensor:
        return tf.matmul(x, x)  # shapes do not match

    def frames() -> list[str]:
        with pytest.raises(ValueError, match="Dimensions must be equal") as caught:
            wrong(tf.ones([2, 3]))
        stack = traceback.extract_tb(caught.value.__traceback__)
        return [Path(frame.filename).name for frame in stack]

    expected = frames()
    with tf_memsafe.memory_limit(LIMIT):
        assert frames() == expected


def test_the_limit_error_is_raised_at_the_users_call() -> None:
    function, (x, v) = compiled(kernel), points_and_weights()
    with tf_memsafe.memory_limit(5_000), pytest.raises(tf_memsafe.MemoryLimitError) as caught:
        function(x, v)
    stack = traceback.extract_tb(caught.value.__traceback__)
    assert stack[0].filename == __file__
    assert stack[0].line == "function(x, v)"


@pytest.mark.parametrize("options", [{}, {"jit_compile": True}], ids=["plain", "compiled"])
def test_running_functions_eagerly_disables_the_hook(
    options: dict[str, Any], rewritten_runs: Runs
) -> None:
    function, (x, v) = tf.function(kernel, **options), points_and_weights()
    tf.config.run_functions_eagerly(True)
    with tf_memsafe.memory_limit(LIMIT):
        assert_same(function(x, v), kernel(x, v))
    assert rewritten_runs == []
