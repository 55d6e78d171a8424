"""Loops of a known number of steps are written in one form, with what is needed of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.running import random_array, run
from tests.programs import gradients
from tests.split import loops
from tests.split.loops import STEPS, whiles
from tests.split.planning import floats, graph_for
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node, Region
from tf_memsafe.hlo.show import show
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.hlo.verify import verify
from tf_memsafe.split.normal import normal_loops

SQUARE = floats(4, 4)
STACK, ENTRY = TensorType("f32", (STEPS, 4)), TensorType("f32", (1, 4))


def state(loop: Node) -> list[tuple[int, ...]]:
    """The shapes of a loop's state, but for the step."""
    step, *others = loop.results
    assert step == TensorType("i32")
    return [other.shape for other in others]


def assert_same(graph: Graph, changed: Graph, tolerance: float = 0) -> None:
    verify(changed)
    arguments = [random_array(type_, seed) / 2 for seed, type_ in enumerate(graph.types)]
    for value, wanted in zip(run(changed, arguments), run(graph, arguments), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=0, atol=tolerance)


def test_a_loop_keeps_the_step_and_what_changes() -> None:
    def power(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        start, limit = (0, 5, x, y, x + y), 7
        body = lambda i, j, v, same, unused: (i + 1, j + 2, v * same, same, unused * v)  # noqa: E731
        return tf.while_loop(lambda i, *_: i < limit, body, start)[2]

    graph = graph_for(power, SQUARE, SQUARE)
    (loop,) = whiles(normal_loops(graph))
    assert state(loop) == [(4, 4)]
    assert [capture.name for capture in loop.regions[1].captures] == ["parameter"]
    assert_same(graph, normal_loops(graph))


def test_counters_are_constants_after_the_loop() -> None:
    def count(x: tf.Tensor) -> tuple[tf.Tensor, ...]:
        start = (0, tf.constant(5, tf.int64), x)
        return tf.while_loop(lambda i, *_: i < 7, lambda i, j, v: (i + 1, j + 3, v * 2), start)

    step, number, _ = normal_loops(graph_for(count, SQUARE)).outputs
    assert (step.name, number.name) == ("constant", "constant")
    assert_same(graph_for(count, SQUARE), normal_loops(graph_for(count, SQUARE)))


def test_a_gradient_reads_numbers_and_entries_alone() -> None:
    """Counters are not stacked up, what is read is not cleared, one entry at a time is added to."""
    rows = floats(STEPS, 4, 4)
    graph = graph_for(gradients(loops.recurrent), rows, SQUARE)
    forward, backward = whiles(normal_loops(graph))
    assert state(forward).count((STEPS, 4, 4)) == 3  # the outputs, and two of the gradient's
    assert all(dtype.dtype != "i32" for dtype in forward.results[1:])
    assert state(backward) == [(4, 4), (STEPS, 4, 4), (4, 4)]
    assert_same(graph, normal_loops(graph))


def test_what_is_normal_stays_as_it_is() -> None:
    graph = normal_loops(graph_for(gradients(loops.power), SQUARE, SQUARE))
    assert normal_loops(graph) is graph


def test_one_step_takes_no_loop() -> None:
    graph = graph_for(lambda x, y: loops.power(x, y, 1), SQUARE, SQUARE)
    assert list(whiles(normal_loops(graph))) == []
    assert_same(graph, normal_loops(graph))


def test_a_loop_that_data_ends_stays_as_it_is() -> None:
    def until(x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(lambda v: v[0, 0] < 3, lambda v: (v + x,), (x,))[0]

    graph = graph_for(until, SQUARE)
    assert normal_loops(graph) is graph


# --- stacks -------------------------------------------------------------------------------------

Body = Callable[[Node, Node, Node, Node], tuple[Node, Node]]
"""From the step, a vector, a stack and what is captured to the next vector and stack."""


def written(body: Body, start: Node | None = None) -> Graph:
    """The sum of the vectors that a loop goes through, and the stack if `start` is not a value."""
    x, given = build.region_parameters((ENTRY, STACK))
    state = (build.index(0), x, given if start is None else start)
    types = [node.tensor for node in state]
    tested = build.region_parameters(types)
    condition = Region(tested, (build.compare(tested[0], build.index(STEPS), "LT"),))
    step, vector, stack = parameters = build.region_parameters(types)
    results = (build.add(step, build.index(1)), *body(step, vector, stack, given))
    region = Region(parameters, results, (given,))
    _, last, filled = build.while_loop(state, condition, region)
    return Graph((x, given), (last,) if start is None else (last, filled))


def entry(stack: Node, step: Node) -> Node:
    return build.dynamic_slice(stack, (step, build.index(0)), (1, 4))


def put(stack: Node, value: Node, step: Node) -> Node:
    return build.dynamic_update_slice(stack, value, (step, build.index(0)))


ZERO_ENTRY, ZERO_STACK = build.zeros(ENTRY), build.zeros(STACK)


def test_what_is_cleared_once_it_is_read_is_captured() -> None:
    graph = written(lambda i, v, s, _: (build.add(v, entry(s, i)), put(s, ZERO_ENTRY, i)))
    (loop,) = whiles(normal_loops(graph))
    assert state(loop) == [(1, 4)]
    assert_same(graph, normal_loops(graph))


def always_first(i: Node, v: Node, s: Node, _: Node) -> tuple[Node, Node]:
    return build.add(v, entry(s, build.index(0))), put(s, ZERO_ENTRY, build.index(0))


def next_one(i: Node, v: Node, s: Node, _: Node) -> tuple[Node, Node]:
    return build.add(v, entry(s, i)), put(s, v, build.subtract(build.index(STEPS - 1), i))


def read_after(i: Node, v: Node, s: Node, _: Node) -> tuple[Node, Node]:
    cleared = put(s, v, i)
    return build.add(v, entry(cleared, i)), cleared


@pytest.mark.parametrize("body", [always_first, next_one, read_after])
def test_what_is_read_once_it_is_replaced_is_carried(body: Body) -> None:
    graph = written(body)
    (loop,) = whiles(normal_loops(graph))
    assert state(loop) == [(1, 4), (STEPS, 4)]
    assert_same(graph, normal_loops(graph))


def added(i: Node, v: Node, s: Node, _: Node) -> tuple[Node, Node]:
    """x + put(0, e, i), as TensorFlow's gradients of list items add them."""
    return build.add(v, v), build.add(s, put(ZERO_STACK, v, i))


def added_twice(i: Node, v: Node, s: Node, given: Node) -> tuple[Node, Node]:
    more = put(ZERO_STACK, entry(given, i), i)
    return build.add(v, v), build.add(more, build.add(s, put(ZERO_STACK, v, i)))


def updates(graph: Graph) -> Sequence[Node]:
    (loop,) = whiles(graph)
    return loop.regions[1].results[-1].operands


def test_an_entry_is_added_to_in_place() -> None:
    graph = written(added, start=build.multiply(ZERO_STACK, ZERO_STACK))
    normal = normal_loops(graph)
    stack, total, *_ = updates(normal)
    assert (stack.name, total.name) == ("parameter", "add")
    assert {operand.name for operand in total.operands} == {"dynamic_slice", "parameter"}
    assert_same(graph, normal)


@pytest.mark.parametrize(("body", "name"), [(added, "parameter"), (added_twice, "add")])
def test_zeros_that_are_added_to_once_are_written(body: Body, name: str) -> None:
    graph = written(body, start=ZERO_STACK)
    normal = normal_loops(graph)
    stack, entry_, *_ = updates(normal)
    assert (stack.name, entry_.name) == ("parameter", name)
    assert_same(graph, normal)


def test_zeros_that_are_added_to_in_each_step_are_not() -> None:
    first = lambda _, v, s, __: (v, build.add(s, put(ZERO_STACK, v, build.index(0))))  # noqa: E731
    graph = written(first, start=ZERO_STACK)
    normal = normal_loops(graph)
    _, total, *_ = updates(normal)
    assert total.name == "add"
    assert_same(graph, normal)


def test_a_slice_of_a_repeated_value_is_that_value() -> None:
    ones = build.broadcast(build.constant(1, TensorType("f32")), (STEPS, 4))
    graph = written(lambda i, v, s, _: (build.add(v, entry(ones, i)), s))
    assert "dynamic_slice" not in show(normal_loops(graph))
    assert_same(graph, normal_loops(graph))
