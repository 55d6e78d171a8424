"""Plain TensorFlow, as a beginner writes it: run under a limit it is ours, without one a peer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

Call = Callable[[], Any]
Arrays = dict[str, Any]


def start() -> None:
    """Has XLA compile something."""
    tf.function(lambda: tf.exp(tf.ones([])), jit_compile=True)()


def tensors(data: Arrays, *names: str) -> list[tf.Tensor]:
    return [tf.constant(data[name]) for name in names]


# --- nearest neighbours -------------------------------------------------------------------------


def knn(data: Arrays, metric: str, neighbours: int) -> Call:
    """Squared Euclidean, L1 or cosine distances of all queries [q, d] to all points [n, d]."""

    @tf.function(jit_compile=True)
    def nearest(queries: tf.Tensor, points: tf.Tensor) -> Any:
        return tf.math.top_k(-DISTANCES[metric](queries, points), neighbours)

    queries, points = tensors(data, "queries", "points")
    return lambda: tuple(nearest(queries, points))


def euclidean(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum((x[:, None, :] - y[None, :, :]) ** 2, -1)


def manhattan(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.abs(x[:, None, :] - y[None, :, :]), -1)


def cosine(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    x, y = tf.math.l2_normalize(x, -1), tf.math.l2_normalize(y, -1)
    return 1 - tf.matmul(x, y, transpose_b=True)


DISTANCES = {"euclidean": euclidean, "manhattan": manhattan, "cosine": cosine}


def inner_products(data: Arrays, block: int, **_: Any) -> Call:
    """The inner products of all queries and points, by blocks of points; none of them is kept."""

    @tf.function(jit_compile=True)
    def products(queries: tf.Tensor, points: tf.Tensor) -> tf.Tensor:
        def step(i: tf.Tensor, _: tf.Tensor) -> Any:
            part = tf.slice(points, [i * block, 0], [block, points.shape[1]])
            return i + 1, tf.matmul(queries, part, transpose_b=True)

        start = tf.constant(0), tf.zeros([len(queries), block], queries.dtype)
        return tf.while_loop(lambda i, _: i < len(points) // block, step, start)[1]

    arguments = tensors(data, "queries", "points")
    return lambda: products(*arguments)


# --- kernel matrices ----------------------------------------------------------------------------


def kernel(name: str, x: tf.Tensor, y: tf.Tensor, lengthscales: tf.Tensor) -> tf.Tensor:
    """The kernel matrix [n, m] of points [n, d] and [m, d]."""
    return of_distances(name, euclidean(x / lengthscales, y / lengthscales))


def of_distances(name: str, squares: tf.Tensor) -> tf.Tensor:
    """The kernel of squared distances."""
    if name == "squared exponential":
        return tf.exp(-0.5 * squares)
    r = tf.sqrt(3 * tf.maximum(squares, 1e-36))  # as GPflow does it
    return (1 + r) * tf.exp(-r)


def kernel_product(data: Arrays, name: str) -> Call:
    """K v for points x [n, d] and a vector v [n, 1]."""

    @tf.function(jit_compile=True)
    def product(x: tf.Tensor, lengthscales: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        return tf.matmul(kernel(name, x, x, lengthscales), v)

    arguments = tensors(data, "x", "lengthscales", "v")
    return lambda: product(*arguments)


def kernel_values(data: Arrays, name: str) -> Call:
    """As many values of the kernel as a kernel matrix has, of distances that are in the cache."""

    @tf.function(jit_compile=True)
    def total(distances: tf.Tensor) -> tf.Tensor:
        def step(i: tf.Tensor, so_far: tf.Tensor) -> Any:
            return i + 1, so_far + of_distances(name, distances + tf.cast(i, distances.dtype))

        start = tf.constant(0), tf.zeros_like(distances)
        return tf.while_loop(lambda i, _: i < len(distances), step, start)[1]

    (v,) = tensors(data, "v")
    distances = tf.abs(v[:, 0])
    return lambda: total(distances)


def kernel_gradient(data: Arrays, name: str) -> Call:
    """u' K v, and its gradients to the points, the length scales and the variance."""

    @tf.function(jit_compile=True)
    def gradients(*arguments: tf.Tensor) -> Any:
        x, lengthscales, variance, u, v = arguments
        with tf.GradientTape() as tape:
            tape.watch(arguments[:3])
            product = variance * tf.matmul(kernel(name, x, x, lengthscales), v)
            value = tf.reduce_sum(u * product)
        return value, *tape.gradient(value, arguments[:3])

    arguments = tensors(data, "x", "lengthscales", "variance", "u", "v")
    return lambda: gradients(*arguments)


def exact_gp(data: Arrays, tolerance: float, steps: int) -> Call:
    """The weights (K + noise)^-1 y of an exact GP, by conjugate gradients as in a textbook."""

    @tf.function(jit_compile=True)
    def weights(x: tf.Tensor, lengthscales: tf.Tensor, noise: tf.Tensor, y: tf.Tensor) -> Any:
        def product(v: tf.Tensor) -> tf.Tensor:
            return tf.matmul(kernel("squared exponential", x, x, lengthscales), v) + noise * v

        def unfinished(step: Any, w: Any, residual: Any, direction: Any) -> Any:
            return (step < steps) & (tf.norm(residual) > tolerance * tf.norm(y))

        def improve(step: Any, w: Any, residual: Any, direction: Any) -> Any:
            size, image = tf.reduce_sum(residual**2), product(direction)
            length = size / tf.reduce_sum(direction * image)
            w, residual = w + length * direction, residual - length * image
            return step + 1, w, residual, residual + tf.reduce_sum(residual**2) / size * direction

        return tf.while_loop(unfinished, improve, (0, tf.zeros_like(y), y, y))[1]

    arguments = tensors(data, "x", "lengthscales", "noise", "y")
    return lambda: weights(*arguments)


# --- attention, chains --------------------------------------------------------------------------


def attention(data: Arrays) -> Call:
    """Attention [heads, length, size], and the gradients of half its squares to q, k and v."""

    @tf.function(jit_compile=True)
    def forward_and_backward(*arguments: tf.Tensor) -> Any:
        queries, keys, values = arguments
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            scores = tf.matmul(queries, keys, transpose_b=True) / queries.shape[-1] ** 0.5
            attended = tf.matmul(tf.nn.softmax(scores), values)
            loss = 0.5 * tf.reduce_sum(attended**2)
        return attended, *tape.gradient(loss, arguments)

    arguments = tensors(data, "queries", "keys", "values")
    return lambda: forward_and_backward(*arguments)


def nothing(data: Arrays) -> Call:
    """TensorFlow's call of a compiled function with these arguments, which does nothing."""
    idle = tf.function(lambda *matrices: matrices[0][0, 0], jit_compile=True)
    matrices = tensors(data, *sorted(data))
    return lambda: idle(*matrices)


def chain(data: Arrays) -> Call:
    """The product of all matrices, from left to right."""

    @tf.function(jit_compile=True)
    def product(*matrices: tf.Tensor) -> tf.Tensor:
        result, *others = matrices
        for matrix in others:
            result = result @ matrix
        return result

    matrices = tensors(data, *sorted(data))
    return lambda: product(*matrices)
