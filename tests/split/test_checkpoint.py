"""What a loop keeps of every step for its gradient is computed again, where that is certain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.running import random_array, run
from tests.programs import gradients
from tests.split import loops
from tests.split.loops import STEPS, HandMade, stack_shapes, whiles
from tests.split.planning import graph_for
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.op import Symbol
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.hlo.verify import verify
from tf_memsafe.split.checkpoint import checkpoint, checkpoint_loops, keep_states
from tf_memsafe.split.liveness import estimate_peak
from tf_memsafe.split.stacks import find_pairs

SIZE = 4


def square(dtype: str = "f32") -> tf.TensorSpec:
    return tf.TensorSpec((SIZE, SIZE), "float64" if dtype == "f64" else "float32")


def rows(dtype: str = "f32") -> tf.TensorSpec:
    return tf.TensorSpec((STEPS, SIZE, SIZE), square(dtype).dtype)


def power_graph() -> Graph:
    return graph_for(gradients(loops.power), square(), square())


# --- what fires ---------------------------------------------------------------------------------


def test_a_pair_says_what_is_stacked_and_from_what_it_can_be_computed() -> None:
    (pair,) = find_pairs(power_graph())
    assert pair.trips == STEPS
    assert {stack.entry.shape for stack in pair.stacks} == {(1, SIZE, SIZE)}
    assert pair.entry_bytes == len(pair.stacks) * 4 * SIZE**2
    assert pair.state_bytes == 4 * SIZE**2


def test_what_depends_on_the_steps_inputs_alone_needs_no_state() -> None:
    graph = graph_for(gradients(loops.stateless), rows(), square())
    (pair,) = find_pairs(graph)
    assert pair.state == ()
    stacked = [stack for stack in pair.stacks if len(stack.entry.shape) == 3]
    for before, after in zip(whiles(graph), whiles(keep_states(graph, pair)), strict=True):
        assert len(stack_shapes(before)) - len(stack_shapes(after)) == len(stacked) > 0


def test_the_states_are_kept_instead_of_the_stacks() -> None:
    graph = power_graph()
    (pair,) = find_pairs(graph)
    assert len(pair.stacks) > 1
    forward, backward = whiles(keep_states(graph, pair))
    assert stack_shapes(forward) == [(STEPS, SIZE, SIZE)]
    assert stack_shapes(backward) == []
    assert list(whiles(backward.regions[1])) == []


def test_segments_are_run_again_from_their_checkpoints() -> None:
    graph = power_graph()
    (pair,) = find_pairs(graph)
    forward, backward = whiles(checkpoint(graph, pair, 3))
    assert stack_shapes(forward) == [(3 + 1, SIZE, SIZE)]  # 3, 3 and 1 steps; one entry unused
    assert stack_shapes(backward) == []
    again, back = whiles(backward.regions[1])
    assert stack_shapes(again) == [(3, SIZE, SIZE)] * len(pair.stacks)
    assert stack_shapes(back) == []


def test_a_segments_stacks_can_hold_states() -> None:
    graph = power_graph()
    (pair,) = find_pairs(graph)
    _, backward = whiles(checkpoint(graph, pair, 3, stack_states=True))
    again, _ = whiles(backward.regions[1])
    assert stack_shapes(again) == [(3, SIZE, SIZE)]


def test_no_more_is_computed_again_than_the_room_asks_for() -> None:
    graph = graph_for(gradients(lambda x, y: loops.power(x, y, 40)), square(), square())
    (pair,) = find_pairs(graph)
    ways = [
        graph,
        keep_states(graph, pair),
        checkpoint(graph, pair, 4),
        checkpoint(graph, pair, 6, stack_states=True),
    ]
    needed = [estimate_peak(way) for way in ways]
    assert needed == sorted(needed, reverse=True)
    loops_inside = [0, 0, 2, 2]
    for room, inside in zip(needed, loops_inside, strict=True):
        chosen = checkpoint_loops(graph, room)
        assert estimate_peak(chosen) <= room
        assert len(list(whiles(list(whiles(chosen))[1].regions[1]))) == inside
    assert checkpoint_loops(graph, needed[0]) is graph
    assert estimate_peak(checkpoint_loops(graph, 0)) <= needed[-1]


def test_each_loop_has_its_own_checkpoints() -> None:
    graph = graph_for(gradients(loops.one_after_the_other), square(), square())
    assert len(find_pairs(graph)) == 2
    smallest = checkpoint_loops(graph, 0)
    assert find_pairs(smallest) == []
    assert estimate_peak(smallest) < estimate_peak(graph)


# --- the numbers --------------------------------------------------------------------------------

WAYS: dict[str, Callable[[Graph, Any], Graph]] = {
    "states": keep_states,
    "segments of 2": lambda graph, pair: checkpoint(graph, pair, 2),
    "one segment": lambda graph, pair: checkpoint(graph, pair, STEPS),
    "states of segments of 3": lambda graph, pair: checkpoint(graph, pair, 3, stack_states=True),
}

PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[str], tf.TensorSpec]]] = {
    "power": (loops.power, square),
    "counting": (loops.counting, square),
    "recurrent": (loops.recurrent, rows),
    "two states": (loops.two_states, square),
    "stateless": (loops.stateless, rows),
    "one after the other": (loops.one_after_the_other, square),
}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_numbers_are_the_same(program: str, dtype: str) -> None:
    function, first = PROGRAMS[program]
    graph = graph_for(gradients(function), first(dtype), square(dtype))
    arguments = [random_array(type_, seed) / 2 for seed, type_ in enumerate(graph.types)]
    expected = run(graph, arguments)
    for way in WAYS.values():
        changed = graph
        for _ in find_pairs(graph):
            changed = way(changed, find_pairs(changed)[0])
        verify(changed)
        for value, reference in zip(run(changed, arguments), expected, strict=True):
            tolerance = 1e-14 if dtype == "f64" else 1e-6
            scale = float(np.max(np.abs(reference)))
            np.testing.assert_allclose(value, reference, rtol=0, atol=tolerance * scale)


def test_a_loop_of_one_step_keeps_nothing_worth_it() -> None:
    graph = graph_for(gradients(lambda x, y: loops.power(x, y, 1)), square(), square())
    assert checkpoint_loops(graph, 0) is graph


# --- what is left alone -------------------------------------------------------------------------


def test_the_hand_made_loops_are_a_pair_as_they_are() -> None:
    graph = HandMade().graph()
    (pair,) = find_pairs(graph)
    changed = checkpoint(graph, pair, 2)
    x = np.arange(SIZE, dtype=np.float32)
    for value, reference in zip(run(changed, [x]), run(graph, [x]), strict=True):
        np.testing.assert_array_equal(value, reference)


def shifted(i: Node) -> Node:
    return build.add(i, build.index(1))


def doubled(i: Node) -> Node:
    return build.add(i, i)


def random(x: Node) -> Node:
    bounds = (build.zeros(TensorType("f32")), build.constant(1, TensorType("f32")))
    distribution = {"rng_distribution": Symbol("rng_distribution", "UNIFORM")}
    shape = build.constant([SIZE], TensorType("i64", (1,)))
    return build.emit("rng", (*bounds, shape), distribution, type=x.tensor)


def below_a_hundred(x: Node) -> list[Node]:
    first = build.reshape(build.dynamic_slice(x, [build.index(0)], [1]), ())
    return [build.compare(first, build.constant(100, TensorType("f32")), "LT")]


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(HandMade(keep_going=below_a_hundred), id="data decides when it ends"),
        pytest.param(HandMade(growth=2), id="the counter grows by two"),
        pytest.param(HandMade(trips=STEPS - 1), id="the loops' steps differ"),
        pytest.param(HandMade(trips_back=STEPS - 1), id="fewer steps are read"),
        pytest.param(HandMade(write_at=doubled), id="not every entry is written"),
        pytest.param(HandMade(write_at=shifted), id="the last write is out of bounds"),
        pytest.param(HandMade(read_at=lambda j: j), id="it is read from the front"),
        pytest.param(HandMade(read_at=lambda _: build.index(0)), id="one entry is read"),
        pytest.param(HandMade(read_size=2), id="two entries are read at once"),
        pytest.param(HandMade(returns_stack=True), id="the second loop passes it on"),
        pytest.param(HandMade(uses=lambda stack: [stack]), id="it is a result"),
        pytest.param(HandMade(uses=lambda s: [build.add(s, s)]), id="something else uses it"),
        pytest.param(HandMade(change=random), id="a step has an effect"),
    ],
)
def test_it_is_left_alone_where(changed: HandMade) -> None:
    graph = changed.graph()
    assert find_pairs(graph) == []
    assert checkpoint_loops(graph, 0) is graph


def test_two_gradients_of_one_loop_keep_its_stacks() -> None:
    def twice(x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch((x, y))
            value = loops.power(x, y)
            first, second = tf.reduce_sum(value), tf.reduce_sum(value**2)
        return [*tape.gradient(first, (x, y)), *tape.gradient(second, (x, y))]

    assert find_pairs(graph_for(twice, square(), square())) == []


def test_a_loop_without_a_gradient_is_left_alone() -> None:
    assert find_pairs(graph_for(loops.recurrent, rows(), square())) == []
