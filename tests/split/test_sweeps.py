"""Which loops go over the same steps, and what has to be kept of each step although they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.running import run
from tests.split import loops
from tests.split.loops import STEPS, HandMade
from tests.split.planning import floats, graph_for
from tests.split.test_segments import graph_of
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.op import Symbol
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.split.checkpoint import checkpoint_loops
from tf_memsafe.split.normal import normal_loops
from tf_memsafe.split.segments import write_segments
from tf_memsafe.split.sweeps import (
    OTHER_ORDER,
    RANDOM,
    RETURNED,
    UNKNOWN_STEPS,
    Group,
    find_groups,
    kept_stacks,
)

SIZE = 4
SQUARE = floats(SIZE, SIZE)


def groups(function: Callable[..., Any]) -> list[Group]:
    return find_groups(normal_loops(graph_of(function)))


def directions(group: Group) -> str:
    return "".join("up " if sweep.upwards else "down " for sweep in group.sweeps).strip()


def test_a_loop_and_the_loop_that_goes_back() -> None:
    (group,) = groups(loops.power)
    forward, backward = group.sweeps
    assert group.trips == STEPS
    assert directions(group) == "up down"
    assert {entry.shape for entry in forward.stacks.values()} == {(1, SIZE, SIZE)}
    assert group.entry_bytes == len(forward.stacks) * 4 * SIZE**2
    assert group.state_bytes == 4 * SIZE**2
    assert set(backward.reads.values()) == {(0, position) for position in forward.stacks}
    assert (backward.stacks, backward.needed) == ({}, ())


def test_what_depends_on_the_steps_inputs_alone_needs_no_state() -> None:
    (group,) = groups(loops.stateless)
    assert group.state_bytes == 0 < group.entry_bytes


def test_two_loops_that_go_back_through_one() -> None:
    (group,) = groups(loops.two_gradients)
    assert directions(group) == "up down down"
    assert group.sources(2) == [0]


def test_a_gradient_of_a_gradient() -> None:
    (group,) = groups(loops.second_order)
    assert directions(group) == "up down up down"


def test_layers_that_go_both_ways() -> None:
    """The second loop goes down, although it is the first to go over its rows."""
    (group,) = groups(loops.both_ways)
    assert directions(group) == "up down up down down up"


def test_each_loop_has_a_group_of_its_own() -> None:
    found = groups(loops.one_after_the_other)
    assert [directions(group) for group in found] == ["up down"] * 2


# --- what has to be kept ------------------------------------------------------------------------


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


def test_the_hand_made_loops_are_a_group_as_they_are() -> None:
    graph = HandMade().graph()
    normal = normal_loops(graph)
    (group,) = find_groups(normal)
    x = np.arange(SIZE, dtype=np.float32)
    for value, reference in zip(
        run(write_segments(normal, group, (2,)), [x]), run(graph, [x]), strict=True
    ):
        np.testing.assert_array_equal(value, reference)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        pytest.param(HandMade(keep_going=below_a_hundred), UNKNOWN_STEPS, id="data ends it"),
        pytest.param(HandMade(trips=STEPS - 1), OTHER_ORDER, id="the loops' steps differ"),
        pytest.param(HandMade(trips_back=STEPS - 1), OTHER_ORDER, id="fewer steps are read"),
        pytest.param(HandMade(read_at=lambda _: build.index(0)), OTHER_ORDER, id="one is read"),
        pytest.param(HandMade(read_at=shifted), OTHER_ORDER, id="the next one is read"),
        pytest.param(HandMade(read_size=2), OTHER_ORDER, id="two entries are read at once"),
        pytest.param(HandMade(returns_stack=True), RETURNED, id="it is returned"),
        pytest.param(HandMade(uses=lambda stack: [stack]), RETURNED, id="it is a result"),
        pytest.param(
            HandMade(uses=lambda s: [build.add(s, s)]),
            "add needs all of it at once",
            id="something else uses it",
        ),
        pytest.param(HandMade(change=random), RANDOM, id="a step has an effect"),
        pytest.param(HandMade(write_at=doubled), None, id="not every entry is written"),
        pytest.param(HandMade(write_at=shifted), None, id="the last write is out of bounds"),
    ],
)
def test_a_stack_is_kept_where(changed: HandMade, reason: str | None) -> None:
    normal = normal_loops(changed.graph())
    assert find_groups(normal) == []
    assert checkpoint_loops(changed.graph(), 0).checkpoints == ()
    stack = TensorType("f32", (STEPS, 4))
    found = {kept.reason for kept in kept_stacks(normal) if kept.type == stack}
    assert found == ({reason} if reason else set())


def test_a_stack_is_read_from_either_end() -> None:
    normal = normal_loops(HandMade(read_at=lambda j: j).graph())
    (group,) = find_groups(normal)
    assert directions(group) == "up up"


def test_a_loop_without_a_gradient_is_left_alone() -> None:
    graph = graph_for(loops.recurrent, floats(STEPS, SIZE, SIZE), SQUARE)
    assert find_groups(normal_loops(graph)) == []


def kept_reasons(graph: Graph) -> set[str]:
    return {kept.reason for kept in kept_stacks(normal_loops(graph))}


def test_dropout_in_a_loop_is_random() -> None:
    def dropping(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        step = lambda h, _: tf.nn.dropout(tf.sin(h @ y), 0.5)  # noqa: E731
        return tf.foldl(step, tf.range(STEPS), x)

    assert RANDOM in kept_reasons(graph_of(dropping))
