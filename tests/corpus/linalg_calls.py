"""tf.linalg: products, factorisations, solves, and what is made of them."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.corpus.calls import (
    Call,
    brain,
    call,
    complex_,
    double,
    gradients_of,
    half,
    integer,
    positive_definite,
    real,
)


def _products() -> list[Call]:
    return [
        call("matmul", tf.matmul, real(4, 5), real(5, 6)),
        call("matmul f64", tf.matmul, double(4, 5), double(5, 6)),
        call("matmul f16", tf.matmul, half(4, 5), half(5, 6)),
        call("matmul bf16", tf.matmul, brain(4, 5), brain(5, 6)),
        call("matmul i32", tf.matmul, integer(4, 5), integer(5, 6)),
        call(
            "matmul i8 to i32",
            lambda x, y: tf.matmul(x, y, output_type=tf.int32),
            integer(4, 5, dtype=np.int8),
            integer(5, 6, dtype=np.int8),
        ),
        call(
            "matmul c64, adjoint",
            lambda x, y: tf.matmul(x, y, adjoint_a=True),
            complex_(5, 4),
            complex_(5, 6),
        ),
        call("matmul of batches", tf.matmul, real(3, 4, 5), real(3, 5, 6)),
        call(
            "matmul, transposed",
            lambda x, y: tf.matmul(x, y, transpose_b=True),
            real(3, 4, 5),
            real(6, 5),
        ),
        call("matmul of nothing", tf.matmul, real(4, 0), real(0, 6)),
        call("matvec", tf.linalg.matvec, double(4, 5), double(5)),
        call("einsum", lambda x, y: tf.einsum("bij,bjk->bik", x, y), real(3, 4, 5), real(3, 5, 6)),
        call(
            "einsum, transposed sum",
            lambda x, y: tf.einsum("abc,cd->da", x, y),
            real(3, 4, 5),
            real(5, 6),
        ),
        call("tensordot", lambda x, y: tf.tensordot(x, y, 2), real(3, 4, 5), real(4, 5, 6)),
        call("cross", tf.linalg.cross, real(4, 3), real(4, 3)),
        call("norm", tf.linalg.norm, real(4, 5)),
        call("norm, largest", lambda x: tf.linalg.norm(x, np.inf, 1), real(4, 5)),
        call("normalize", tf.linalg.normalize, double(4, 5)),
        call("trace", tf.linalg.trace, real(3, 4, 4)),
        call("adjoint", tf.linalg.adjoint, complex_(3, 4, 5)),
        call("eye", lambda x: x + tf.eye(4), real(4, 4)),
        call("diag", tf.linalg.diag, real(3, 4)),
        call("diag, below", lambda x: tf.linalg.diag(x, k=-1), real(3, 4)),
        call("diag_part", tf.linalg.diag_part, real(3, 4, 5)),
        call("diag_part, above", lambda x: tf.linalg.diag_part(x, k=1), real(4, 5)),
        call("set_diag", tf.linalg.set_diag, real(4, 4), real(4)),
        call("band_part", lambda x: tf.linalg.band_part(x, -1, 0), real(4, 5)),
        call("tensor_diag", tf.linalg.tensor_diag, real(4)),
    ]


def _factorisations() -> list[Call]:
    definite, definite64 = positive_definite(2, 4, 4), positive_definite(5, 5, dtype=np.float64)
    return [
        call("cholesky", tf.linalg.cholesky, definite),
        call("cholesky f64", tf.linalg.cholesky, definite64),
        call(
            "cholesky_solve",
            lambda a, b: tf.linalg.cholesky_solve(tf.linalg.cholesky(a), b),
            definite64,
            double(5, 3),
        ),
        call("triangular_solve", tf.linalg.triangular_solve, definite, real(2, 4, 3)),
        call(
            "triangular_solve, upper",
            lambda a, b: tf.linalg.triangular_solve(a, b, lower=False),
            definite64,
            double(5, 3),
        ),
        call(
            "triangular_solve, adjoint",
            lambda a, b: tf.linalg.triangular_solve(a, b, adjoint=True),
            definite64,
            double(5, 3),
        ),
        call(
            "triangular_solve c64",
            tf.linalg.triangular_solve,
            positive_definite(4, 4, dtype=np.complex64),
            complex_(4, 3),
        ),
        call("solve", tf.linalg.solve, definite64, double(5, 3)),
        call("inv", tf.linalg.inv, definite),
        call("pinv", tf.linalg.pinv, real(5, 3)),
        call("qr", tf.linalg.qr, real(5, 3)),
        call("qr, full", lambda x: tf.linalg.qr(x, full_matrices=True), double(5, 3)),
        call("svd", tf.linalg.svd, real(4, 3)),
        call("svd, values only", lambda x: tf.linalg.svd(x, compute_uv=False), double(4, 3)),
        call("eigh", tf.linalg.eigh, definite64),
        call("eigvalsh", tf.linalg.eigvalsh, definite),
        call("logdet", tf.linalg.logdet, definite64),
        call("matrix_rank", tf.linalg.matrix_rank, definite),
        call("lstsq", tf.linalg.lstsq, real(5, 3), real(5, 2)),
        call("expm", tf.linalg.expm, real(3, 3)),
        call(
            "tridiagonal_matmul",
            lambda d, x: tf.linalg.tridiagonal_matmul(d, x, "compact"),
            real(3, 4),
            real(4, 2),
        ),
        call(
            "tridiagonal_solve",
            lambda d, x: tf.linalg.tridiagonal_solve(d, x, "compact"),
            real(3, 4),
            real(4, 2),
        ),
        call("banded_triangular_solve", tf.linalg.banded_triangular_solve, real(2, 4), real(4, 2)),
        call("det", tf.linalg.det, definite),
        call("lu", tf.linalg.lu, definite),
        call("eig", tf.linalg.eig, definite),
        call("logm", tf.linalg.logm, positive_definite(3, 3, dtype=np.complex64)),
        call("sqrtm", tf.linalg.sqrtm, definite),
        call("global_norm", lambda x, y: tf.linalg.global_norm([x, y]), real(4), real(3)),
        call("triangle of distances", _kernel_solve, double(5, 2), double(7, 2)),
    ]


def _kernel_solve(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """A sparse Gaussian process in small: a factor of K(x, x) and solves with K(x, y)."""
    kernel = _kernel(x, x) + 0.1 * tf.eye(x.shape[0], dtype=x.dtype)
    half_solved = tf.linalg.triangular_solve(tf.linalg.cholesky(kernel), _kernel(x, y))
    return tf.matmul(half_solved, half_solved, transpose_b=True)


def _kernel(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.exp(-tf.reduce_sum((x[:, None] - y[None]) ** 2, -1))


BASE = [*_products(), *_factorisations()]
WITH_GRADIENT = (
    "matmul; matmul c64, adjoint; matmul of batches; matmul, transposed; matvec; einsum;"
    " tensordot; cross; norm; trace; diag; diag_part; set_diag; band_part; cholesky;"
    " cholesky f64; cholesky_solve; triangular_solve; triangular_solve, adjoint; solve; inv; qr;"
    " svd, values only; eigh; expm; triangle of distances"
)
CALLS = [*BASE, *gradients_of(BASE, WITH_GRADIENT)]
