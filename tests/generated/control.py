"""Loops, branches and random numbers."""

from __future__ import annotations

import tensorflow as tf

from tests.generated.operation import Kind, Law, general, numbered


def _loop(x: tf.Tensor, number: int) -> tf.Tensor:
    def body(i: tf.Tensor, value: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return i + 1, tf.sin(value) + x

    steps = number + 1
    return tf.while_loop(lambda i, _: i < steps, body, (0, x), maximum_iterations=steps)[1]


def _loop_of_products(x: tf.Tensor, y: tf.Tensor, number: int) -> tf.Tensor | None:
    """A large product in each step, of which only the sums of rows are kept."""
    if x.shape.rank != 2 or y.shape.rank != 2 or x.shape[1] != y.shape[1]:
        return None

    def body(i: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        products = tf.matmul(x + total[:, None], y, transpose_b=True)
        return i + 1, total + tf.reduce_mean(tf.tanh(products), 1)

    start = (0, tf.zeros(x.shape[:1], x.dtype))
    steps = number + 1
    return tf.while_loop(lambda i, _: i < steps, body, start, maximum_iterations=steps)[1]


def _open_loop(x: tf.Tensor, at: tf.Tensor, _number: int) -> tf.Tensor:
    """How often it runs is known only at run time."""
    steps = tf.reduce_max(tf.cast(at, tf.int32)) % 4
    return tf.while_loop(lambda i, _: i < steps, lambda i, v: (i + 1, tf.sin(v) + 1), (0, x))[1]


def _fold(x: tf.Tensor, y: tf.Tensor, _number: int) -> tf.Tensor | None:
    """The sum over all rows of x of x * (row + y), in a loop."""
    if not x.shape.rank or x.shape.rank + y.shape.rank > 3:
        return None
    total = tf.zeros([*x.shape[1:], *y.shape], x.dtype)

    def add(total: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
        left = tf.reshape(row, [*row.shape, *[1] * y.shape.rank])
        return total + tf.tanh(left * (y + 1))

    return tf.foldl(add, x, total)


def _branch(x: tf.Tensor, at: tf.Tensor, number: int) -> tf.Tensor:
    return tf.cond(
        tf.reduce_max(tf.cast(at, tf.int32)) > number, lambda: tf.sin(x), lambda: x * 0.5
    )


def _switch(x: tf.Tensor, at: tf.Tensor, number: int) -> tf.Tensor:
    index = (tf.reduce_max(tf.cast(at, tf.int32)) + number) % 3
    return tf.switch_case(index, [lambda: x + 1, lambda: tf.tanh(x), lambda: tf.nn.sigmoid(x)])


def _map_rows(x: tf.Tensor, _number: int) -> tf.Tensor:
    return tf.map_fn(lambda row: tf.nn.softmax(row * 0.5), x)


def _recurrence(x: tf.Tensor, _number: int) -> tf.Tensor:
    return tf.scan(lambda state, row: tf.tanh(state * 0.5 + row), x, tf.zeros(x.shape[1:], x.dtype))


def _noise(x: tf.Tensor, number: int) -> tf.Tensor:
    return x + tf.cast(tf.random.stateless_uniform(x.shape, (number, 1)), x.dtype)


def _stateful_noise(x: tf.Tensor, _number: int) -> tf.Tensor:
    return x + tf.random.uniform(x.shape, dtype=x.dtype)


OPERATIONS = {
    "loop": numbered(_loop),
    "loop of products": general(_loop_of_products),
    "open loop": general(_open_loop, Kind.FLOAT, Law.KINKED, Kind.INTEGER),
    "fold": general(_fold),
    "branch": general(_branch, Kind.FLOAT, Law.SMOOTH, Kind.INTEGER),
    "switch": general(_switch, Kind.FLOAT, Law.SMOOTH, Kind.INTEGER),
    "map rows": numbered(_map_rows, rank=2),
    # Not in half precision: TensorFlow 2.21 crashes, without any limit, at the f16 scan of what was
    # reshaped, cast, repeated and padded.
    "recurrence": numbered(_recurrence, Kind.WIDE, rank=1),
    "noise": numbered(_noise),
    "stateful noise": numbered(_stateful_noise, Kind.FLOAT, Law.RANDOM),
}
