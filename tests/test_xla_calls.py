"""The private TensorFlow API about calls of concrete functions is as `xla.py` takes it to be."""

from __future__ import annotations

from collections import namedtuple
from contextlib import nullcontext
from typing import Any

import pytest
import tensorflow as tf

from tests.programs import assert_same, compiled
from tf_memsafe import xla
from tf_memsafe.hlo.reader import variable_updates
from tf_memsafe.xla import ConcreteFunction

ORIGINAL = ConcreteFunction._call_flat


# --- what a concrete function says of itself ---


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"jit_compile": True}, True), ({"jit_compile": False}, False), ({}, False)],
    ids=str,
)
def test_must_compile(options: dict[str, bool], expected: bool) -> None:
    concrete = tf.function(tf.square, **options).get_concrete_function(tf.TensorSpec([2]))
    assert xla.must_compile(concrete) is expected


def test_name_of() -> None:
    class Model(tf.Module):
        @tf.function
        def __call__(self, x: tf.Tensor) -> tf.Tensor:
            return x

        @tf.function
        def step_2(self, x: tf.Tensor) -> tf.Tensor:
            return x

    model, spec = Model(), tf.TensorSpec([2])
    functions = [model.__call__, model.step_2, tf.function(lambda x: x)]
    names = [xla.name_of(function.get_concrete_function(spec)) for function in functions]
    assert names == ["__call__", "step_2", "<lambda>"]


def test_result_specs_are_the_users_results_alone() -> None:
    concrete = compiled(
        lambda x: {"sum": tf.reduce_sum(x), "rest": [None, x > 0]}
    ).get_concrete_function(tf.TensorSpec([None, 3]))
    with tf.GradientTape() as tape:  # TensorFlow may add what a gradient needs to the outputs
        x = tf.ones([2, 3])
        tape.watch(x)
        concrete(x)
    found = [(spec.shape.as_list(), spec.dtype) for spec in xla.result_specs(concrete)]
    assert found == [([None, 3], tf.bool), ([], tf.float32)]


def test_variable_updates_are_extra_outputs() -> None:
    count, other = tf.Variable(0.0), tf.Variable(tf.zeros([2]))

    def function(x: tf.Tensor) -> tf.Tensor:
        other.assign(x + other)
        count.assign_add(1.0)
        return x * 2

    concrete = compiled(function).get_concrete_function(tf.TensorSpec([2]))
    updates = variable_updates(xla.hlo_module(concrete, [tf.TensorSpec([2])]))
    handles = {id(count.handle): "count", id(other.handle): "other"}
    captured = [handles[id(tensor)] for tensor in concrete.captured_inputs]
    assert sorted(updates) == [1, 2]
    assert [captured[parameter - 1] for parameter in sorted(updates.values())] == captured


def test_an_update_without_results_is_the_only_output() -> None:
    count = tf.Variable(0.0)
    concrete = compiled(lambda: [count.assign_add(1.0), None][1]).get_concrete_function()
    assert variable_updates(xla.hlo_module(concrete, [])) == {0: 0}


def test_no_updates() -> None:
    concrete = compiled(tf.square).get_concrete_function(tf.TensorSpec([2]))
    assert variable_updates(xla.hlo_module(concrete, [tf.TensorSpec([2])])) == {}


# --- calls ---


def test_call_flat_is_the_call() -> None:
    offset = tf.constant(3.0)
    concrete = compiled(lambda x: {"shifted": x + offset}).get_concrete_function(tf.TensorSpec([]))
    found = xla.call_flat(concrete, [tf.constant(1.0)], concrete.captured_inputs)
    assert {name: value.numpy() for name, value in found.items()} == {"shifted": 4.0}


def test_call_inference_has_flat_results_and_no_gradient() -> None:
    concrete = compiled(lambda x: {"twice": 2 * x, "none": None}).get_concrete_function(
        tf.TensorSpec([])
    )
    x = tf.constant(1.5)
    with tf.GradientTape() as tape:
        tape.watch(x)
        (twice,) = xla.call_inference(concrete, [x])
    assert twice.numpy() == 3
    assert tape.gradient(twice, x) is None


Pair = namedtuple("Pair", ["first", "second"])


def test_pack_outputs_restores_the_structure() -> None:
    def function(x: tf.Tensor) -> Any:
        return Pair(x + 1, {"b": [None, x + 2], "a": (x + 3,)})

    concrete = compiled(function).get_concrete_function(tf.TensorSpec([]))
    flat = xla.call_inference(concrete, [tf.constant(0.0)])
    packed = xla.pack_outputs(concrete, flat)
    assert packed == Pair(1, {"b": [None, 2], "a": (3,)})
    assert type(packed) is Pair


def test_intercepted_calls_bring_arguments_and_captures() -> None:
    seen: list[Any] = []
    offset = tf.constant(3.0)
    function = compiled(lambda x, factor=2.0: factor * x + offset)

    def replacement(concrete: ConcreteFunction, tensor_inputs: Any, captured_inputs: Any) -> Any:
        seen.append((len(tensor_inputs), captured_inputs[0] is offset))
        return xla.call_flat(concrete, tensor_inputs, captured_inputs)

    xla.intercept_calls(replacement)
    try:
        results = [function(tf.constant(1.0)), function(1.0), function(x=tf.constant(2.0))]
    finally:
        xla.release_calls()
    assert [result.numpy() for result in results] == [5, 5, 7]
    assert seen == [(1, True), (0, True), (1, True)]


def test_released_calls_go_to_the_very_same_method() -> None:
    xla.intercept_calls(lambda *_: None)
    assert ConcreteFunction._call_flat is not ORIGINAL
    xla.release_calls()
    assert ConcreteFunction._call_flat is ORIGINAL


# --- is_watched ---


def watched(function: Any, *arguments: tf.Tensor) -> bool:
    concrete = function.get_concrete_function(*arguments)
    return xla.is_watched([*arguments, *concrete.captured_inputs], concrete)


def test_only_what_a_tape_would_record_is_watched() -> None:
    x, y, function = tf.constant(1.0), tf.constant(1.0), compiled(lambda x: 2 * x)
    function.get_concrete_function(x)
    assert not watched(function, x)
    with tf.GradientTape() as tape:
        assert not watched(function, x)
        tape.watch(x)
        assert watched(function, x)
        assert not watched(function, y)
        with tape.stop_recording():
            assert not watched(function, x)
    assert not watched(function, x)


@pytest.mark.parametrize(
    ("trainable", "automatic", "expected"),
    [(True, True, True), (False, True, False), (True, False, False)],
)
def test_variables_are_watched_as_by_tensorflow(
    trainable: bool, automatic: bool, expected: bool
) -> None:
    variable = tf.Variable(2.0, trainable=trainable)
    function = compiled(lambda: 2 * variable)
    function.get_concrete_function()
    with tf.GradientTape(watch_accessed_variables=automatic) as tape:
        assert watched(function) is expected
    assert [id(v) for v in tape.watched_variables()] == [id(variable)] * expected


def test_forward_accumulators_watch_too() -> None:
    x, function = tf.constant(1.0), compiled(lambda x: 2 * x)
    function.get_concrete_function(x)
    with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)):
        assert watched(function, x)


# --- tangents ---


def test_tapes_go_back_and_forward_accumulators_do_not() -> None:
    x = tf.constant(1.0)
    with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)):
        assert not xla.would_go_back([x])
    with tf.GradientTape() as tape:
        tape.watch(x)
        assert xla.would_go_back([x])
        assert not xla.would_go_back([tf.constant(1.0)])


def test_what_has_a_tangent() -> None:
    x, y, variable = tf.constant(1.0), tf.constant(1.0), tf.Variable(1.0)
    one = tf.constant(1.0)
    with tf.autodiff.ForwardAccumulator([y, variable], [one, one]):
        assert xla.with_tangents([x, y, variable.read_value(), variable.handle]) == (1, 2, 3)
    assert xla.with_tangents([x, y]) == ()


def test_derivatives_of_a_call_that_was_not_seen() -> None:
    x = tf.constant([3.0, 4.0])
    direction = tf.constant([5.0, 7.0])
    with tf.autodiff.ForwardAccumulator(x, direction) as accumulator, tf.GradientTape() as tape:
        tape.watch(x)
        with xla.unrecorded():
            y, count = 2 * x, tf.size(x)
        xla.record_call([y, count], [x], lambda u, _: [20 * u], lambda t: [200 * t, None])
    assert_same(tape.gradient(y, x), tf.constant([20.0, 20.0]))
    assert_same(accumulator.jvp(y), 200 * direction)
    assert accumulator.jvp(count) is None


def test_tangents_of_single_ops_are_functions_of_tensorflow(monkeypatch: Any) -> None:
    called = []

    def call(function: ConcreteFunction, tensor_inputs: Any, captured_inputs: Any) -> Any:
        called.append(function)
        return xla.call_flat(function, tensor_inputs, captured_inputs)

    x = tf.constant(3.0)
    monkeypatch.setattr(ConcreteFunction, "_call_flat", call)
    with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)):
        _ = tf.sin(x)
    assert called
    assert all(map(xla.is_tangent_of_op, called))
    assert not xla.is_tangent_of_op(compiled(lambda x: 2 * x).get_concrete_function(x))


def test_a_tape_works_while_an_accumulator_looks_at_a_call() -> None:
    x, found = tf.constant(3.0), {}

    def tangents(direction: tf.Tensor) -> list[tf.Tensor]:
        for name, block in (("as it is", nullcontext), ("anew", xla.recording_anew)):
            with block(), tf.autodiff.ForwardAccumulator(x, direction) as accumulator:
                square = x**2
            found[name] = accumulator.jvp(square)
        return [direction]

    with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)):
        with xla.unrecorded():
            y = 2 * x
        xla.record_call([y], [x], lambda u: [u], tangents)
    assert found["as it is"] is None
    assert_same(found["anew"], tf.constant(6.0))
