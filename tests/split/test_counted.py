"""Which loops run a known number of times, and which numbers are known in each step."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensorflow as tf

from tests.split.planning import floats, graph_for
from tf_memsafe.hlo.order import topological
from tf_memsafe.split.counted import Affine, NumberStack, counted_loops

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
    assert trips(lambda i, _: i <= 10) == [11]
    assert trips(lambda i, _: i < 10, start=-3) == [13]
    assert trips(lambda i, _: i < 10, start=20) == [0]


def test_a_counter_above_a_bound() -> None:
    assert trips(lambda i, _: i > 0, start=10, step=-1) == [10]
    assert trips(lambda i, _: i >= 0, start=10, step=-1) == [11]
    assert trips(lambda i, _: tf.less(3, i), start=10, step=-1) == [7]


def test_larger_steps() -> None:
    assert trips(lambda i, _: i < 10, step=3) == [4]
    assert trips(lambda i, _: i <= 9, step=3) == [4]
    assert trips(lambda i, _: i > 0, start=10, step=-4) == [3]


def test_the_first_bound_that_is_reached_counts() -> None:
    assert trips(lambda i, _: i < 10, most=4) == [4]
    assert trips(lambda i, _: (i < 10) & (i < 6), start=1, most=40) == [5]
    assert trips(lambda _, __: tf.constant(True), most=4) == [4]


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
        pytest.param(lambda i, _: i > -1, id="never reached"),
    ],
)
def test_anything_else_is_not_known(condition: Condition) -> None:
    assert trips(condition) == []


def test_a_counter_that_wraps_around_is_not_known() -> None:
    assert trips(lambda i, _: i <= 2**31 - 1, start=2**31 - 5) == []


# --- numbers of the body ---


def numbers(index: Callable[[tf.Tensor], tf.Tensor], stacks: bool = False) -> Affine | None:
    """Where a loop of 5 steps, whose counter starts at 2, reads a vector of 20."""

    def loop(x: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
        def body(i: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            at = table[index(i)] if stacks else index(i)
            return i + 1, total + tf.raw_ops.Slice(input=x, begin=[at], size=[1])

        return tf.while_loop(lambda i, _: i < 7, body, (2, tf.zeros([1])))[1]

    types = floats(20), tf.TensorSpec([20], tf.int32)
    (loop_,) = counted_loops(topological(graph_for(loop, *types).outputs)).values()
    tables = {
        parameter: NumberStack(Affine(10, -1), 0, 10)
        for parameter in loop_.body.parameters
        if parameter.dtype == "i32" and parameter.shape == (20,)
    }
    known = loop_.known_numbers(tables)
    (read,) = (
        node
        for node in topological(loop_.body.results)
        if node.name == "dynamic_slice" and node.dtype == "f32"
    )
    return known.get(read.operands[1])


def test_sums_and_multiples_of_the_counter() -> None:
    assert numbers(lambda i: i) == Affine(2, 1)
    assert numbers(lambda i: 9 - i) == Affine(7, -1)
    assert numbers(lambda i: 2 * i + 1) == Affine(5, 2)
    assert numbers(lambda i: tf.cast(tf.cast(i, tf.int64) + 1, tf.int32)) == Affine(3, 1)


def test_a_choice_that_is_the_same_in_each_step() -> None:
    assert numbers(lambda i: tf.where(i < 0, i + 20, i)) == Affine(2, 1)
    assert numbers(lambda i: tf.where(i > 6, 0, i)) == Affine(2, 1)
    assert numbers(lambda i: tf.where(i > 5, 0, i)) is None


def test_products_of_two_counters_are_not_known() -> None:
    assert numbers(lambda i: i * i) is None


def test_numbers_from_a_stack_of_numbers() -> None:
    assert numbers(lambda i: i, stacks=True) == Affine(8, -1)
    assert numbers(lambda i: 12 - i, stacks=True) == Affine(0, 1)


def test_entries_that_were_not_written_are_not_known() -> None:
    assert numbers(lambda i: i + 5, stacks=True) is None
