from __future__ import annotations

import pytest

from tf_memsafe.hlo.types import TensorType, TupleType


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (TensorType("f32", (4, 3)), "tensor<4x3xf32>"),
        (TensorType("i1"), "tensor<i1>"),
        (TensorType("complex<f64>", (0,)), "tensor<0xcomplex<f64>>"),
        (
            TensorType("i32", (4, 3), (True, False)),
            "tensor<?x3xi32, #stablehlo.bounds<4, ?>>",
        ),
    ],
)
def test_is_spelled_as_stablehlo_spells_it(type_: TensorType, text: str) -> None:
    assert str(type_) == text


@pytest.mark.parametrize(
    ("type_", "size"),
    [
        (TensorType("f32", (4, 3)), 48),
        (TensorType("i1", (5,)), 5),  # a predicate takes a whole byte
        (TensorType("bf16"), 2),
        (TensorType("complex<f64>", (2,)), 32),
        (TensorType("f64", (3, 0)), 0),
    ],
)
def test_bytes_are_those_of_xlas_buffer(type_: TensorType, size: int) -> None:
    assert type_.bytes == size


def test_with_axis_changes_one_size() -> None:
    assert TensorType("f32", (4, 3, 2)).with_axis(1, 7) == TensorType("f32", (4, 7, 2))


def test_with_dtype_keeps_the_shape() -> None:
    assert TensorType("f32", (4,), (True,)).with_dtype("i1") == TensorType("i1", (4,), (True,))


def test_a_tuple_has_the_bytes_of_its_elements() -> None:
    type_ = TupleType((TensorType("f32", (2,)), TensorType("i64")))
    assert type_.bytes == 16
    assert str(type_) == "(tensor<2xf32>, tensor<i64>)"
