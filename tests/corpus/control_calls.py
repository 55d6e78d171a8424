"""Branches and loops: tf.cond, tf.while_loop, tf.map_fn, tf.scan, calls of other functions."""

from __future__ import annotations

import tensorflow as tf

from tests.corpus.calls import boolean, call, double, gradients_of, integer, real


def _power_iteration(matrix: tf.Tensor, vector: tf.Tensor) -> tf.Tensor:
    def step(i: tf.Tensor, v: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        v = tf.linalg.matvec(matrix, v)
        return i + 1, v / tf.norm(v)

    return tf.while_loop(lambda i, _: i < 5, step, (0, vector), maximum_iterations=5)[1]


def _collatz(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    def step(n: tf.Tensor, count: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

    return tf.while_loop(lambda n, _: n > 1, step, (number + 5, 0))


def _nested_loops(x: tf.Tensor) -> tf.Tensor:
    def outer(i: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        inner = tf.while_loop(
            lambda j, _: j < 3, lambda j, t: (j + 1, t + x * tf.cast(i, x.dtype)), (0, total)
        )
        return i + 1, inner[1]

    return tf.while_loop(lambda i, _: i < 4, outer, (0, tf.zeros_like(x)))[1]


def _loop_with_a_branch(x: tf.Tensor) -> tf.Tensor:
    def step(i: tf.Tensor, t: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return i + 1, tf.cond(i % 2 == 0, lambda: t + x, lambda: t * x)

    return tf.while_loop(lambda i, _: i < 4, step, (0, x))[1]


def _array(x: tf.Tensor) -> tf.Tensor:
    array = tf.TensorArray(x.dtype, 4, element_shape=x.shape)
    for i in range(4):
        array = array.write(i, x * float(i))
    return array.stack()


def _rnn(inputs: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    start = tf.zeros_like(inputs[0])
    return tf.scan(lambda h, x: tf.tanh(tf.linalg.matvec(weights, h) + x), inputs, start)


@tf.function
def _inner(x: tf.Tensor) -> tf.Tensor:
    return tf.sin(x) + 1


@tf.custom_gradient
def _straight_through(x: tf.Tensor) -> tuple[tf.Tensor, object]:
    return tf.round(x), lambda upstream: upstream


FLAG = boolean()
MATRIX, VECTOR = double(4, 4, low=0.1), double(4, low=0.1)


def _jacobian(x: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.sin(x) * tf.reduce_sum(x)
    return tape.jacobian(y, x)


BASE = [
    call("cond", lambda p, x: tf.cond(p, lambda: x + 1, lambda: x * 2), FLAG, real(4)),
    call("cond on data", lambda x: tf.cond(x[0] > 0, lambda: tf.exp(x), lambda: -x), real(4)),
    call(
        "cond of two results",
        lambda p, x: tf.cond(p, lambda: (x, -x), lambda: (-x, x)),
        FLAG,
        real(4),
    ),
    call(
        "cond, large branch",
        lambda p, x, y: tf.cond(p, lambda: x @ y, lambda: y @ x),
        FLAG,
        real(4, 4),
        real(4, 4),
    ),
    call(
        "nested cond",
        lambda p, q, x: tf.cond(p, lambda: tf.cond(q, lambda: x, lambda: -x), lambda: x * 3),
        FLAG,
        FLAG,
        real(4),
    ),
    call(
        "switch_case",
        lambda i, x: tf.switch_case(i, [lambda: x, lambda: x + 1, lambda: x * 2]),
        integer(high=5),
        real(4),
    ),
    call(
        "case",
        lambda x: tf.case([(x[0] > 1, lambda: x), (x[0] > 0, lambda: -x)], lambda: x * 2),
        real(4),
    ),
    call("while_loop", _power_iteration, MATRIX, VECTOR),
    call("while_loop on data", _collatz, integer()),
    call("nested loops", _nested_loops, real(4)),
    call("loop with a branch", _loop_with_a_branch, real(4)),
    call("map_fn", lambda x: tf.map_fn(tf.sin, x), real(4, 3)),
    call(
        "map_fn of two",
        lambda x, y: tf.map_fn(lambda a: a[0] @ a[1], (x, y), fn_output_signature=tf.float32),
        real(3, 4, 4),
        real(3, 4, 4),
    ),
    call(
        "vectorized_map", lambda x: tf.vectorized_map(lambda r: tf.reduce_sum(r * r), x), real(4, 3)
    ),
    call("scan", lambda x: tf.scan(lambda a, b: a + b, x), real(4, 3)),
    call("scan, reversed", lambda x: tf.scan(lambda a, b: a * b, x, reverse=True), double(4, 3)),
    call("foldl", lambda x: tf.foldl(lambda a, b: a * 0.5 + b, x), real(4, 3)),
    call("foldr", lambda x: tf.foldr(lambda a, b: a * 0.5 + b, x), real(4, 3)),
    call("rnn", _rnn, real(5, 4), real(4, 4)),
    call("TensorArray", _array, real(3)),
    call("call of a function", lambda x: _inner(_inner(x)), real(4)),
    call("recompute_grad", tf.recompute_grad(_inner), real(4)),
    call("custom_gradient", lambda x: _straight_through(x) * x, real(4)),
    call("stop_gradient", lambda x: tf.stop_gradient(x) * x, real(4)),
    call(
        "second derivative", lambda x: tf.gradients(tf.gradients(tf.sin(x) * x, x)[0], x), real(4)
    ),
    call("jacobian", _jacobian, real(3)),
    call("hessian", lambda x: tf.hessians(tf.reduce_sum(x**3), x), real(3)),
]


WITH_GRADIENT = (
    "cond; cond on data; cond, large branch; nested cond; switch_case; while_loop; nested loops;"
    " map_fn; vectorized_map; scan; foldl; rnn; TensorArray; call of a function; recompute_grad;"
    " custom_gradient; stop_gradient"
)
CALLS = [*BASE, *gradients_of(BASE, WITH_GRADIENT)]
