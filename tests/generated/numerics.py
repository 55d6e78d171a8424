"""Products, reductions, windows, convolutions, sorting, factorisations, transforms."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tests.generated.operation import Kind, Law, along, general, numbered, unary

LARGEST_MATRIX = 13
"""Rows of the largest matrix that is factorised: XLA unrolls these to compile them."""


def _outer(x: tf.Tensor, y: tf.Tensor, number: int) -> tf.Tensor | None:
    """The beginner's x[:, None] - y[None]: the sizes multiply."""
    if x.shape.rank + y.shape.rank > 4 or not x.shape.rank:
        return None
    left = tf.reshape(x, [*x.shape, *[1] * y.shape.rank])
    return (tf.subtract, tf.multiply, tf.add)[number % 3](left, y)


def _rows(x: tf.Tensor, y: tf.Tensor) -> bool:
    """Whether both are lists of points with as many coordinates."""
    return x.shape.rank == y.shape.rank == 2 and x.shape[1] == y.shape[1]


def _differences(x: tf.Tensor, y: tf.Tensor, _number: int) -> tf.Tensor | None:
    return tf.abs(x[:, None] - y[None]) if _rows(x, y) else None


def _squares(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(x * x, 1)[:, None] + tf.reduce_sum(y * y, 1)


def _distances(x: tf.Tensor, y: tf.Tensor, number: int) -> tf.Tensor | None:
    """Squared distances of rows, in the difference form or the dot form."""
    if not _rows(x, y):
        return None
    if number % 2:
        return tf.reduce_sum((x[:, None] - y[None]) ** 2, -1)
    return _squares(x, y) - 2 * tf.matmul(x, y, transpose_b=True)


def _matmul(x: tf.Tensor, y: tf.Tensor, number: int) -> tf.Tensor | None:
    if x.shape.rank < 2 or y.shape.rank != 2:
        return None
    if x.shape[-1] == y.shape[-1]:
        return tf.linalg.matvec(x, y[0]) if number == 5 else tf.einsum("...ik,jk->...ij", x, y)
    return tf.einsum("...ik,kj->...ij", x, y) if x.shape[-1] == y.shape[0] else None


def _batch_matmul(x: tf.Tensor, y: tf.Tensor, _number: int) -> tf.Tensor | None:
    if x.shape.rank != 3 or y.shape.rank != 3 or x.shape[0] != y.shape[0]:
        return None
    if x.shape[2] == y.shape[2]:
        return tf.matmul(x, y, transpose_b=True)
    return tf.matmul(x, y) if x.shape[2] == y.shape[1] else None


def _contract_rows(x: tf.Tensor, y: tf.Tensor, _number: int) -> tf.Tensor | None:
    if x.shape.rank < 2 or y.shape.rank < 2 or x.shape[0] != y.shape[0]:
        return None
    return tf.tensordot(x, y, [[0], [0]]) if x.shape.rank + y.shape.rank <= 5 else None


def _attention(x: tf.Tensor, y: tf.Tensor, _number: int) -> tf.Tensor | None:
    if x.shape.rank < 2 or x.shape.rank != y.shape.rank or x.shape[-1] != y.shape[-1]:
        return None
    if x.shape[:-2] != y.shape[:-2]:
        return None
    return tf.nn.softmax(tf.matmul(x, y, transpose_b=True)) @ y


ALGEBRA = {
    "outer": general(_outer, Kind.NUMBER),
    "differences": general(_differences, Kind.FLOAT, Law.KINKED),
    "distances": general(_distances)._replace(cancels=_squares),
    "matmul": general(_matmul, Kind.FLOAT | Kind.COMPLEX),
    "batch matmul": general(_batch_matmul, Kind.FLOAT | Kind.COMPLEX),
    "contract rows": general(_contract_rows, Kind.FLOAT | Kind.COMPLEX),
    "attention": general(_attention),
}


def _norm(x: tf.Tensor, axis: int) -> tf.Tensor:
    return tf.sqrt(tf.reduce_sum(x * x, axis, keepdims=True) + 0.1)


REDUCTIONS = {
    "sum": along(tf.reduce_sum, Kind.NUMBER),
    "sum of all": unary(tf.reduce_sum, Kind.NUMBER),
    "sum of the last two": numbered(lambda x, _: tf.reduce_sum(x, [-2, -1]), rank=2),
    "mean": along(tf.reduce_mean),
    "product": along(lambda x, axis: tf.reduce_prod(tf.sin(x) + 0.5, axis)),
    "variance": along(tf.math.reduce_variance),
    "log-sum-exp": along(tf.reduce_logsumexp),
    "softmax": along(tf.nn.softmax),
    "log-softmax": along(tf.nn.log_softmax),
    "centre": along(lambda x, axis: x - tf.reduce_mean(x, axis, keepdims=True)),
    "normalise": along(lambda x, axis: x / _norm(x, axis)),
    "maximum": along(tf.reduce_max, Kind.REAL, Law.CHOOSES),
    "minimum": along(tf.reduce_min, Kind.REAL, Law.CHOOSES),
    "maximum of all": unary(tf.reduce_max, Kind.REAL, Law.CHOOSES),
    "any": along(tf.reduce_any, Kind.BOOLEAN, Law.JUMPS),
    "all": along(tf.reduce_all, Kind.BOOLEAN, Law.JUMPS),
    "position of the largest": along(
        lambda x, axis: tf.argmax(x, axis, tf.int32), Kind.REAL, Law.JUMPS
    ),
    "position of the smallest": along(
        lambda x, axis: tf.argmin(x, axis, tf.int32), Kind.REAL, Law.JUMPS
    ),
}


def _pool(kind: str) -> Callable[[tf.Tensor, int], tf.Tensor | None]:
    def pool(x: tf.Tensor, number: int) -> tf.Tensor | None:
        padding = ("SAME", "VALID")[number % 2]
        if x.shape.rank != 3 or x.shape[1] < 2:
            return None
        return tf.nn.pool(x, [2], kind, strides=[1 + number % 3 // 2], padding=padding)

    return pool


def _convolve(x: tf.Tensor, y: tf.Tensor, number: int) -> tf.Tensor | None:
    """Rows of y as the filter of a convolution over the middle axis of x."""
    if x.shape.rank != 3 or y.shape.rank != 2 or x.shape[2] != y.shape[1]:
        return None
    width = min(2, y.shape[0])
    weights = tf.stack([y[:width], -y[-width:]], 2)
    return tf.nn.conv1d(x, weights, 1 + number % 2, ("SAME", "VALID")[number // 3])


def _batch_norm(x: tf.Tensor, number: int) -> tf.Tensor | None:
    if x.shape.rank != 3:
        return None
    # The reference works in f64, which this operation does not take.
    narrow = tf.cast(x, tf.float32)[:, None]
    ones, zeros = tf.ones([x.shape[2]]), tf.zeros([x.shape[2]])
    statistics = {} if number % 2 else {"mean": zeros, "variance": ones, "is_training": False}
    return tf.compat.v1.nn.fused_batch_norm(narrow, ones, zeros, **statistics)[0][:, 0]


def _cumulative_sum(x: tf.Tensor, number: int) -> tf.Tensor:
    axis = number % x.shape.rank
    return tf.cumsum(x, axis, exclusive=number % 2 == 0, reverse=number > 2)


WINDOWS = {
    "cumulative sum": numbered(_cumulative_sum, rank=1),
    "cumulative product": along(lambda x, axis: tf.math.cumprod(tf.sin(x) + 0.5, axis)),
    "cumulative log-sum-exp": along(tf.math.cumulative_logsumexp, Kind.WIDE, Law.KINKED),
    "average pool": numbered(_pool("AVG"), Kind.WIDE),
    "maximum pool": numbered(_pool("MAX"), Kind.WIDE, Law.CHOOSES),
    "convolve": general(_convolve, Kind.WIDE),
    "batch norm": numbered(_batch_norm, Kind.WIDE),
}


def _top(x: tf.Tensor, number: int, part: int) -> tf.Tensor:
    return tf.math.top_k(x, min(number + 1, x.shape[-1]))[part]


ORDERING = {
    "sort": along(tf.sort, Kind.REAL, Law.CHOOSES),
    "sort down": along(lambda x, axis: tf.sort(x, axis, "DESCENDING"), Kind.FLOAT, Law.CHOOSES),
    "order": along(lambda x, axis: tf.argsort(x, axis, stable=True), Kind.REAL, Law.JUMPS),
    "top values": numbered(lambda x, n: _top(x, n, 0), Kind.REAL, Law.CHOOSES, rank=1),
    "top positions": numbered(lambda x, n: _top(x, n, 1), Kind.REAL, Law.JUMPS, rank=1),
}


def _gram(x: tf.Tensor) -> tf.Tensor | None:
    """A positive definite matrix of the rows of x, of condition number at most 13."""
    if x.shape.rank < 2 or x.shape[-2] > LARGEST_MATRIX:
        return None
    rows = tf.tanh(x) / tf.cast(x.shape[-1], x.dtype) ** 0.5
    return tf.matmul(rows, rows, transpose_b=True) + tf.eye(x.shape[-2], dtype=x.dtype)


def _of_gram(function: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]) -> Callable[..., tf.Tensor]:
    """A function of the Gram matrix of the rows, where it is small enough, and the rows."""

    def apply(x: tf.Tensor) -> tf.Tensor | None:
        gram = _gram(x)
        return None if gram is None else function(gram, x)

    return apply


def _solve_triangular(gram: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    return tf.linalg.triangular_solve(tf.linalg.cholesky(gram), x)


def _fourier(x: tf.Tensor) -> tf.Tensor | None:
    return tf.signal.fft(x) if x.shape.rank else None


def _inverse_fourier(x: tf.Tensor) -> tf.Tensor | None:
    return tf.signal.ifft2d(x) if x.shape.rank >= 2 else None


LINEAR = {
    "cholesky": unary(_of_gram(lambda gram, _: tf.linalg.cholesky(gram)), Kind.WIDE),
    "triangular solve": unary(_of_gram(_solve_triangular), Kind.WIDE),
    "cholesky solve": unary(
        _of_gram(lambda gram, x: tf.linalg.cholesky_solve(tf.linalg.cholesky(gram), x)), Kind.WIDE
    ),
    "log determinant": unary(
        _of_gram(
            lambda gram, _: tf.reduce_sum(
                tf.math.log(tf.linalg.diag_part(tf.linalg.cholesky(gram))), -1
            )
        ),
        Kind.WIDE,
    ),
    "fourier": unary(_fourier, Kind.COMPLEX),
    "inverse fourier": unary(_inverse_fourier, Kind.COMPLEX),
    "spectrum": numbered(lambda x, _: tf.signal.rfft(x), Kind.WIDE, rank=1),
}

OPERATIONS = {**ALGEBRA, **REDUCTIONS, **WINDOWS, **ORDERING, **LINEAR}
