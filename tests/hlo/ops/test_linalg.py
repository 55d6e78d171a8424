"""Products, factorisations, solves, Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.ops.makers import (
    complexes,
    dot,
    emit,
    fft,
    floats,
    integers,
    positive_definite,
    solve,
)
from tests.hlo.ops.refusing import assert_refused
from tests.hlo.running import names, random_array, same_as_tensorflow
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.types import TensorType

A = np.stack([positive_definite(4), 2 * positive_definite(4)])
B = random_array(floats(2, 4, 3), 0)


def test_products() -> None:
    def function(a: tf.Tensor, b: tf.Tensor) -> list[tf.Tensor]:
        return [a @ b, tf.einsum("aij,bjk->abik", a, b), tf.tensordot(b, b, [[0, 1], [0, 1]])]

    assert "dot_general" in names(same_as_tensorflow(function, A, B))


def test_factorisations_and_solves() -> None:
    def function(a: tf.Tensor, b: tf.Tensor) -> list[tf.Tensor]:
        factor = tf.linalg.cholesky(a)
        solutions = [
            tf.linalg.triangular_solve(factor, b, adjoint=True),
            tf.linalg.triangular_solve(a, b, lower=False),
        ]
        return [factor, *solutions, *tf.linalg.qr(b), *tf.linalg.eigh(a)]

    found = names(same_as_tensorflow(function, A, B))
    assert {"cholesky", "triangular_solve", "custom_call"} <= found


def test_fourier_transforms() -> None:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        z = tf.signal.fft(tf.cast(x, tf.complex64))
        return [z, tf.signal.ifft2d(z), tf.signal.rfft(x, [9]), tf.signal.irfft2d(z, [4, 5])]

    assert "fft" in names(same_as_tensorflow(function, A))


@pytest.mark.parametrize(
    ("make", "types"),
    [
        (emit("dot_general", **dot((), (), (1,), (0,))), (floats(2, 3), floats(4, 5))),
        (emit("dot_general", **dot((0,), (0,), (), ())), (floats(2), floats(3))),
        (emit("cholesky", lower=True), (floats(3, 4),)),
        (emit("cholesky", lower=True), (floats(3),)),
        (emit("triangular_solve", **solve(True)), (floats(3, 3), floats(4, 3))),
        (emit("triangular_solve", **solve(False)), (floats(3, 3), floats(3, 4))),
        (emit("triangular_solve", **solve(True)), (floats(2, 3, 3), floats(3, 3, 4))),
        (emit("triangular_solve", **solve(True)), (floats(3, 3), integers(3, 4))),
        (emit("fft", **fft("FFT", 8)), (floats(8),)),
        (emit("fft", **fft("FFT", 8)), (complexes(7),)),
        (emit("fft", **fft("RFFT", 8)), (complexes(8),)),
        (emit("fft", **fft("IRFFT", 8)), (complexes(8),)),
    ],
)
def test_refuses(make: Callable[..., Node], types: tuple[TensorType, ...]) -> None:
    assert_refused(make, types)
