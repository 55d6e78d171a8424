from __future__ import annotations

import numpy as np
import pytest

from tests.hlo.running import random_array, run
from tests.hlo.test_verify import counting_loop
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.op import I32, Symbol
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.hlo.writer import attribute_text, write

RUNNABLE = sorted(
    set(build.NUMPY_DTYPES) - {"i4", "ui4"} - {d for d in build.NUMPY_DTYPES if "f8" in d}
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (3, "3 : i64"),
        (I32(3), "3 : i32"),
        ("a \"name\"", '"a \\"name\\""'),
        ((1, 2), "array<i64: 1, 2>"),
        ((), "array<i64>"),
        ((True, False), "array<i1: true, false>"),
        (Symbol("transpose", "ADJOINT"), "#stablehlo<transpose ADJOINT>"),
        ((Symbol("precision", "HIGH"),), "[#stablehlo<precision HIGH>]"),
    ],
)  # fmt: skip
def test_attributes_are_mlir(value: object, text: str) -> None:
    assert attribute_text(value) == text


def test_the_text_of_a_small_program() -> None:
    (x,) = build.region_parameters([TensorType("f32", (4,))])
    assert write(Graph((x,), (build.add(x, x),))) == (
        "func.func public @main(%1: tensor<4xf32>) -> (tensor<4xf32>) {\n"
        '  %2 = "stablehlo.add"(%1, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>)\n'
        '  "func.return"(%2) : (tensor<4xf32>) -> ()\n'
        "}\n"
    )


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)], ids=str)
def test_constants_of_every_dtype_arrive(shape: tuple[int, ...]) -> None:
    types = [TensorType(dtype, shape) for dtype in RUNNABLE]
    arrays = [random_array(type_, seed) for seed, type_ in enumerate(types)]
    constants = [build.constant(a, t) for a, t in zip(arrays, types, strict=True)]
    for found, wanted in zip(run(Graph((), tuple(constants)), []), arrays, strict=True):
        assert found.tobytes() == wanted.tobytes()


def test_constants_that_repeat_are_written_once() -> None:
    ones = build.constant(np.ones((1000, 1000)), TensorType("f64", (1000, 1000)))
    assert len(write(Graph((), (ones,)))) < 300


def test_special_floats_arrive() -> None:
    values = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324])
    (found,) = run(Graph((), (build.constant(values, TensorType("f64", (5,))),)), [])
    assert found.tobytes() == values.tobytes()


def test_a_loop_may_use_a_value_from_outside() -> None:
    (x,) = build.region_parameters([TensorType("f32", (4,))])
    argument = random_array(x.tensor, 0)
    (found,) = run(Graph((x,), (counting_loop(x)[1],)), [argument])
    np.testing.assert_allclose(found, 3 * argument, rtol=1e-6)


def test_an_output_may_be_a_parameter_or_appear_twice() -> None:
    x, y = build.region_parameters([TensorType("i32"), TensorType("i32")])
    assert run(Graph((x, y), (y, y, x)), [1, 2]) == [2, 2, 1]


def test_writing_is_deterministic() -> None:
    (x,) = build.region_parameters([TensorType("f32", (4,))])
    graph = Graph((x,), counting_loop(x))
    assert write(graph) == write(graph)
