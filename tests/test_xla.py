"""The private TensorFlow API that reads, compiles and runs programs is as `xla.py` takes it to be.

A test that fails here after an upgrade of TensorFlow says which use of it has to change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.programs import COUNT, compiled, kernel
from tf_memsafe import xla
from tf_memsafe.xla import ConcreteFunction

F32, F64 = tf.float32, tf.float64


Specs = list[tf.TensorSpec]


def traced(function: Callable[..., Any], *specs: tf.TensorSpec) -> tuple[ConcreteFunction, Specs]:
    return compiled(function).get_concrete_function(*specs), list(specs)


def entry_parameters(module: Any) -> list[tuple[int, ...]]:
    shapes = module.host_program_shape.parameters
    return [tuple(shape.dimensions) for shape in shapes]


def kernel_specs(count: int = COUNT) -> Specs:
    return [tf.TensorSpec([count, 3], F64), tf.TensorSpec([count, 4], F64)]


# --- hlo_module ---


def test_hlo_parameters_are_arguments_then_captured_tensors_and_variables() -> None:
    captured, variable = tf.constant([1.0, 2.0, 3.0]), tf.Variable(tf.ones([4]))

    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(x) + tf.reduce_sum(y) + variable[0] + captured[0]

    concrete, specs = traced(function, tf.TensorSpec([5]), tf.TensorSpec([6]))
    sizes = {id(captured): (3,), id(variable.handle): (4,)}
    expected = [(5,), (6,), *(sizes[id(tensor)] for tensor in concrete.captured_inputs)]
    assert entry_parameters(xla.hlo_module(concrete, specs)) == expected


def test_hlo_is_for_exactly_the_given_shapes() -> None:
    concrete, _ = traced(tf.square, tf.TensorSpec([None, 3]))
    for count in (7, 8):
        module = xla.hlo_module(concrete, [tf.TensorSpec([count, 3])])
        assert entry_parameters(module) == [(count, 3)]


@pytest.mark.parametrize("shapes", [[], [None], [[None, 3]], [[7, 3], [7, 3]]], ids=str)
def test_wrong_shapes_are_an_error_not_a_crash(shapes: list[Any]) -> None:
    concrete, _ = traced(tf.square, tf.TensorSpec([None, 3]))
    with pytest.raises(ValueError, match="square needs 1 fully known shapes"):
        xla.hlo_module(concrete, [tf.TensorSpec(shape) for shape in shapes])


def test_a_function_of_python_arguments_alone_has_hlo() -> None:
    variable = tf.Variable([1.0, 2.0])

    def scaled(factor: float, name: str | None = None) -> tf.Tensor:
        return tf.multiply(variable, factor, name)

    concrete = compiled(scaled).get_concrete_function(3.0)
    assert entry_parameters(xla.hlo_module(concrete, [])) == [(2,)]


def test_compiling_leaves_the_random_numbers_alone() -> None:
    concrete, specs = traced(tf.square, tf.TensorSpec([3]))
    tf.random.set_seed(1)
    expected = tf.random.normal([3])
    tf.random.set_seed(1)
    xla.measure(concrete, specs)
    assert tf.random.normal([3]).numpy().tolist() == expected.numpy().tolist()


def test_hlo_says_which_tensorflow_op_made_it() -> None:
    module = xla.hlo_module(*traced(tf.sin, tf.TensorSpec([2])))
    metadata = [i.metadata for c in module.computations for i in c.instructions]
    assert ("Sin", "Sin") in {(data.op_name, data.op_type) for data in metadata}


def test_what_xla_cannot_compile_is_one_kind_of_error() -> None:
    program = traced(lambda x: tf.strings.length(tf.strings.as_string(x)), tf.TensorSpec([2]))
    for use in (xla.hlo_module, xla.measure):
        with pytest.raises(xla.XlaCompileError, match="AsString"):
            use(*program)


# --- measure ---


def test_elementwise_needs_its_argument_and_its_result() -> None:
    buffers = xla.measure(*traced(lambda x: x + 1, tf.TensorSpec([100])))
    assert buffers.bytes_of("argument") == buffers.bytes_of("result") == 400
    assert buffers.peak == 800


def test_arguments_are_numbered() -> None:
    program = traced(lambda x, y: (x + 1, y + 1), tf.TensorSpec([3]), tf.TensorSpec([4], F64))
    arguments = [a for a in xla.measure(*program).allocations if a.kind == "argument"]
    assert sorted((a.parameter, a.bytes) for a in arguments) == [(0, 12), (1, 32)]


def test_constants_count() -> None:
    table = np.random.default_rng(0).normal(size=100).astype(np.float32)
    program = traced(lambda i: tf.gather(tf.constant(table), i), tf.TensorSpec([], tf.int32))
    assert xla.measure(*program).bytes_of("constant") >= table.nbytes


def test_temporaries_count() -> None:
    buffers = xla.measure(*traced(kernel, *kernel_specs()))
    assert buffers.bytes_of("temporary") >= COUNT * COUNT * 8
    kinds = ("argument", "result", "constant", "temporary")
    assert buffers.peak == sum(map(buffers.bytes_of, kinds))


def test_measuring_allocates_nothing() -> None:
    count = 1_000_000  # a matrix of 8 TB
    assert xla.measure(*traced(kernel, *kernel_specs(count))).peak > 8 * count**2


def test_the_timeline_takes_and_frees() -> None:
    buffers = xla.measure(*traced(kernel, *kernel_specs()))
    in_use = np.cumsum([event.bytes for event in buffers.timeline])
    assert all(event.instruction for event in buffers.timeline)
    assert COUNT * COUNT * 8 <= in_use.max() <= buffers.peak
    assert in_use.min() >= 0
    assert in_use[-1] == 0


def test_the_optimized_program_is_readable() -> None:
    assert "ENTRY" in xla.optimized_hlo(*traced(kernel, *kernel_specs()))


# --- stablehlo_function ---

TWICE = """
func.func @main(%0: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi1>) {
  %1 = "stablehlo.add"(%0, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = "stablehlo.is_finite"(%0) : (tensor<2xf32>) -> tensor<2xi1>
  "func.return"(%1, %2) : (tensor<2xf32>, tensor<2xi1>) -> ()
}
"""

EMPTY = """
func.func @main(%0: tensor<2xf32>) {
  "func.return"() : () -> ()
}
"""

# The body adds a value from outside it, which StableHLO's `while` allows.
COUNTING = """
func.func @main(%0: tensor<f32>) -> tensor<f32> {
  %1 = "stablehlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %2 = "stablehlo.constant"() {value = dense<10.0> : tensor<f32>} : () -> tensor<f32>
  %3 = "stablehlo.while"(%1) ({
    ^bb0(%4: tensor<f32>):
      %5 = "stablehlo.compare"(%4, %2) {
        comparison_direction = #stablehlo<comparison_direction LT>
      } : (tensor<f32>, tensor<f32>) -> tensor<i1>
      "stablehlo.return"(%5) : (tensor<i1>) -> ()
  }, {
    ^bb0(%6: tensor<f32>):
      %7 = "stablehlo.add"(%6, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%7) : (tensor<f32>) -> ()
  }) : (tensor<f32>) -> tensor<f32>
  "func.return"(%3) : (tensor<f32>) -> ()
}
"""


def test_stablehlo_runs() -> None:
    vector = tf.TensorSpec([2])
    function = xla.stablehlo_function(TWICE, [vector], [vector, tf.TensorSpec([2], tf.bool)])
    doubled, finite = xla.call_inference(function, [tf.constant([1.5, np.inf])])
    assert doubled.numpy().tolist() == [3.0, np.inf]
    assert finite.numpy().tolist() == [True, False]
    assert xla.must_compile(function)


def test_stablehlo_without_results_runs() -> None:
    function = xla.stablehlo_function(EMPTY, [tf.TensorSpec([2])], [])
    assert xla.call_inference(function, [tf.ones([2])]) == []


def test_a_stablehlo_loop_uses_what_is_outside_it() -> None:
    function = xla.stablehlo_function(COUNTING, [tf.TensorSpec([])], [tf.TensorSpec([])])
    (total,) = xla.call_inference(function, [tf.constant(4.0)])
    assert total.numpy() == 12


def test_stablehlo_is_measured_like_any_function() -> None:
    vector, flags = tf.TensorSpec([2]), tf.TensorSpec([2], tf.bool)
    buffers = xla.measure(xla.stablehlo_function(TWICE, [vector], [vector, flags]), [vector])
    assert buffers.bytes_of("argument") == 8
    assert buffers.peak >= 8 + 8 + 2
