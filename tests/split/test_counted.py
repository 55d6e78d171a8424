"""Which loops run a known number of times."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensorflow as tf

from tests.split.planning import floats, graph_for
from tf_memsafe.hlo.order import topological
from tf_memsafe.split.counted import counted_loops

Condition = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def trips(
    condition: Condition, start: int = 0, step: int = 1, most: int | None = None
) -> list[int]:
    """The number of steps of a loop over a counter and a vector, if it is known."""

    def loop(x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(
            condition, lambda i, v: (i + step, tf.sin(v)), (start, x), maximum_iterations=most
        )[1]

    nodes = topological(graph_for(loop, floats(4)).outputs)
    return [loop.trips for loop in counted_loops(nodes).values()]


def test_a_counter_below_a_bound() -> None:
    assert trips(lambda i, _: i < 10) == [10]
    assert trips(lambda i, _: i < 10, start=-3) == [13]
    assert trips(lambda i, _: i < 10, start=20) == [0]


def test_the_first_bound_that_is_reached_counts() -> None:
    assert trips(lambda i, _: i < 10, most=4) == [4]
    assert trips(lambda i, _: (i < 10) & (i < 6), start=1, most=40) == [5]


def test_a_bound_that_is_another_loops_last_count() -> None:
    def loops(x: tf.Tensor) -> tf.Tensor:
        count, x = tf.while_loop(lambda i, _: i < 7, lambda i, v: (i + 1, v + 1), (2, x))
        return tf.while_loop(lambda i, _: i < count, lambda i, v: (i + 1, v * 2), (0, x))[1]

    nodes = topological(graph_for(loops, floats(4)).outputs)
    assert [loop.trips for loop in counted_loops(nodes).values()] == [5, 7]


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param(lambda _, v: v[0] < 3, id="data"),
        pytest.param(lambda i, v: (i < 10) & (v[0] < 3), id="data as well"),
        pytest.param(lambda i, v: (i < 10) | (v[0] < 3), id="one of two"),
        pytest.param(lambda i, _: i != 10, id="not a bound"),
    ],
)
def test_anything_else_is_not_known(condition: Condition) -> None:
    assert trips(condition) == []


def test_steps_of_two_are_not_known() -> None:
    assert trips(lambda i, _: i < 10, step=2) == []
