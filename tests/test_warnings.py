"""Warnings as a user meets them: why a function is left as it is, what is at stake, what to do."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import compiled, place_of
from tests.texts import COUNT, MATRIX, X, sums
from tf_memsafe import proof
from tf_memsafe.errors import MemoryLimitError, MemorySafetyWarning
from tf_memsafe.hlo import op
from tf_memsafe.hlo.op import by_opcode
from tf_memsafe.hook import MOST_KNOWN
from tf_memsafe.xla import XlaCompileError


def warning_of(call: Callable[[], Any], limit: int = MATRIX) -> str:
    with tf_memsafe.memory_limit(limit), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MemorySafetyWarning)
        call()
    (message,) = [str(each.message) for each in caught if each.category is MemorySafetyWarning]
    return message


def at_stake(total: str, place: str, shape: str = "[300, 300]", limit: str = "360.00 kB") -> str:
    """How a warning ends: the limit, what the function may need, and where the largest is made."""
    largest = f"the largest that is known 360.00 kB: float32{shape} at {place}"
    return f". The limit is {limit}; {total}, {largest}"


UNKNOWN = "how much it needs is not known"


def test_the_warning_of_what_xla_cannot_compile() -> None:
    def text(x: tf.Tensor) -> tf.Tensor:
        return tf.strings.length(tf.strings.as_string(x @ tf.transpose(x)))

    place = place_of(text, "as_string")
    assert warning_of(lambda: tf.function(text)(X)) == (
        "tf_memsafe leaves text as it is: "
        f"XLA cannot compile AsString at {place}; take it out of the function"
        + at_stake("its tensors take 3.25 MB together", place)
    )


def test_the_warning_of_a_size_that_is_data() -> None:
    def positive(x: tf.Tensor) -> tf.Tensor:
        products = x @ tf.transpose(x)
        return tf.boolean_mask(products, products > 0)

    made, selected = place_of(positive, "products ="), place_of(positive, "boolean_mask")
    assert warning_of(lambda: compiled(positive)(X)) == (
        "tf_memsafe leaves positive as it is: "
        f"the size of what Where at {selected} makes is data; "
        "keep to sizes that are known (a mask in place of a selection, say)"
        + at_stake(UNKNOWN, made)
    )


def test_the_warning_of_a_variable_as_an_argument() -> None:
    def product(x: tf.Tensor, variable: tf.Variable) -> tf.Tensor:
        return x @ tf.transpose(x) * variable

    variable = tf.Variable(2.0)
    assert warning_of(lambda: compiled(product)(X, variable)) == (
        "tf_memsafe leaves product as it is: it takes a tf.Variable (or another resource) as an "
        "argument; let it use that from outside, as a method does"
        + at_stake("its tensors take 1.09 MB together", place_of(product, "return"))
    )


def test_the_warning_of_another_device() -> None:
    def elsewhere(x: tf.Tensor) -> tf.Tensor:
        with tf.device("/GPU:0"):
            return x @ tf.transpose(x)

    place = place_of(elsewhere, "return")
    assert warning_of(lambda: tf.function(elsewhere)(X)) == (
        f"tf_memsafe leaves elsewhere as it is: it runs Transpose at {place} on /device:GPU:0; "
        "keep the function to one device" + at_stake("its tensors take 727.21 kB together", place)
    )


def test_the_warning_of_shapes_that_are_open_where_a_call_is_traced() -> None:
    @tf.function(jit_compile=True)
    def inner(x: tf.Tensor) -> tf.Tensor:
        return tf.exp(x) @ tf.zeros([3, 30_000])

    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def outer(x: tf.Tensor) -> tf.Tensor:
        return inner(x)

    assert warning_of(outer.get_concrete_function) == (
        "tf_memsafe leaves inner as it is: the call is traced with a shape of (None, 3) for its "
        "argument x; call it with tensors whose shapes are known"
        + at_stake(UNKNOWN, place_of(inner.python_function, "zeros"), "[3, 30000]")
    )


def test_the_warning_of_a_program_that_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise XlaCompileError("XLA cannot compile it: for no reason")

    monkeypatch.setattr(proof, "compile_graph", refused)
    raised: list[str] = []

    def call() -> None:
        with pytest.raises(MemoryLimitError) as caught:
            compiled(sums)(X)
        raised.append(str(caught.value))

    text = warning_of(call)
    assert "\nA program was dropped: XLA cannot compile it: for no reason\n" in raised[0]
    assert text == (
        "tf_memsafe drops a program that it wrote for sums: "
        "XLA cannot compile it: for no reason; another one is used if it fits; "
        "another limit may help, and so does reporting this"
        + at_stake("its tensors take 734.41 kB together", place_of(sums, "return"))
    )


def test_the_warning_of_an_op_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    by_opcode("sine")  # all are loaded
    monkeypatch.delitem(op._by_opcode, "sine")

    def waves(x: tf.Tensor) -> tf.Tensor:
        return tf.sin(x @ tf.transpose(x)) @ x

    place = place_of(waves, "tf.sin")
    assert warning_of(lambda: compiled(waves)(X)) == (
        "tf_memsafe leaves waves as it is: tf_memsafe has no op for XLA's 'sine' "
        f"(Sin at {place}); take it out of the function"
        + at_stake("its tensors take 734.41 kB together", place)
    )


def test_warnings_that_are_errors_are_raised_at_each_call() -> None:
    def text(x: tf.Tensor) -> tf.Tensor:
        return tf.strings.length(tf.strings.as_string(x @ tf.transpose(x)))

    function = tf.function(text)
    with tf_memsafe.memory_limit(MATRIX), warnings.catch_warnings():
        warnings.simplefilter("error", MemorySafetyWarning)
        for _ in range(2):
            with pytest.raises(MemorySafetyWarning, match="tf_memsafe leaves text as it is"):
                function(X)


def noisy(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum((x @ tf.transpose(x)) ** 2 @ tf.random.normal([COUNT, COUNT]))


def test_the_warning_of_random_numbers_and_a_tape() -> None:
    def call() -> None:
        with tf.GradientTape() as tape:
            tape.watch(X)
            compiled(noisy)(X)

    assert warning_of(call) == (
        "tf_memsafe leaves noisy as it is: it draws random numbers, "
        "which its gradient cannot draw again; open the tape inside of it"
        + at_stake("its tensors take 2.17 MB together", place_of(noisy, "return"))
    )


def test_the_warning_of_results_that_are_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables are known by their parameters; what else a program changed, nothing would tell."""
    monkeypatch.setattr(proof, "variable_updates", lambda module: {})
    total = tf.Variable(tf.zeros([COUNT, COUNT]))

    def collect(x: tf.Tensor) -> None:
        total.assign_add(tf.exp(x @ tf.transpose(x)))

    assert warning_of(lambda: compiled(collect)(X)) == (
        "tf_memsafe leaves collect as it is: it changes something that is neither a result nor a "
        "variable; have it return that instead"
        + at_stake("its tensors take 727.21 kB together", place_of(collect, "assign_add"))
    )


def test_the_warning_of_many_shapes() -> None:
    def shifted(x: tf.Tensor) -> tf.Tensor:
        return x + 1

    function = compiled(shifted, input_signature=[tf.TensorSpec([None])])
    assert warning_of(lambda: [function(tf.zeros(n)) for n in range(1, MOST_KNOWN + 2)]) == (
        f"tf_memsafe has planned shifted for more than {MOST_KNOWN} shapes, and compiles it for "
        "each: pad its arguments to a few sizes"
    )
