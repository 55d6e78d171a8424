"""What segments run again gives the same numbers, for every kind of loop and division."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.running import random_array, run
from tests.split import loops
from tests.split.loops import ON_MATRICES, ON_ROWS, STEPS, differentiated, stack_shapes, whiles
from tests.split.planning import graph_for
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.verify import verify
from tf_memsafe.split.absorb import absorb
from tf_memsafe.split.divisions import Parts, copies, steps_run
from tf_memsafe.split.join import join_loops
from tf_memsafe.split.normal import normal_loops
from tf_memsafe.split.segments import write_segments
from tf_memsafe.split.sweeps import find_groups

SIZE = 4

SECOND = (loops.two_gradients, loops.second_order)


def square(dtype: str = "float32") -> tf.TensorSpec:
    return tf.TensorSpec((SIZE, SIZE), dtype)


def rows(dtype: str = "float32") -> tf.TensorSpec:
    return tf.TensorSpec((STEPS, SIZE, SIZE), dtype)


def graph_of(function: Callable[..., Any], dtype: str = "float32") -> Graph:
    first = rows(dtype) if function in ON_ROWS else square(dtype)
    return graph_for(differentiated(function), first, square(dtype))


def divided(graph: Graph, parts: Parts) -> Graph:
    """The graph with the steps of all its loops divided alike."""
    for key in [group.key for group in find_groups(graph)]:
        (group,) = (group for group in find_groups(graph) if group.key is key)
        graph = write_segments(graph, group, parts)
    return graph


# --- the loops that are written -----------------------------------------------------------------


def power_graph() -> Graph:
    return normal_loops(graph_of(loops.power))


def test_the_states_are_kept_instead_of_the_stacks() -> None:
    forward, backward = whiles(divided(power_graph(), (1,)))
    assert stack_shapes(forward) == [(STEPS, SIZE, SIZE)]
    assert stack_shapes(backward) == []
    assert list(whiles(backward.regions[1])) == []


def test_segments_are_run_again_from_where_they_begin() -> None:
    graph = power_graph()
    (group,) = find_groups(graph)
    forward, backward = whiles(divided(graph, (3,)))
    assert stack_shapes(forward) == [(3, SIZE, SIZE)]  # 3, 3 and 1 steps
    assert stack_shapes(backward) == []
    again, back = whiles(backward.regions[1])
    assert stack_shapes(again) == [(3, SIZE, SIZE)] * len(group.sweeps[0].stacks)
    assert stack_shapes(back) == []


def test_a_segment_can_keep_states_too() -> None:
    _, backward = whiles(divided(power_graph(), (3, 1)))
    again, back = whiles(backward.regions[1])
    assert stack_shapes(again) == [(3, SIZE, SIZE)]
    assert [list(whiles(loop.regions[1])) for loop in (again, back)] == [[], []]


def test_segments_are_divided_in_turn() -> None:
    _, backward = whiles(divided(power_graph(), (4, 2)))
    again, back = whiles(backward.regions[1])
    assert stack_shapes(again) == [(2, SIZE, SIZE)]
    inner, _ = whiles(back.regions[1])
    assert {shape[0] for shape in stack_shapes(inner)} == {2}


def test_how_many_steps_are_run() -> None:
    (group,) = find_groups(power_graph())
    steps = 2 * STEPS
    assert steps_run(group, (1,)) == steps + STEPS
    assert steps_run(group, (3,)) == steps + STEPS
    assert steps_run(group, (3, 1)) == steps + 2 * STEPS
    assert steps_run(group, (4, 2, 1)) == steps + 3 * STEPS
    assert copies(group, (3,)) == 1 + 2
    assert copies(group, (4, 2, 1)) == 1 + 4


def test_a_later_loop_runs_all_earlier_ones_again() -> None:
    (group,) = find_groups(normal_loops(graph_of(loops.second_order)))
    assert [group.sources(number) for number in range(4)] == [[], [0], [0, 1], [0, 1, 2]]
    assert steps_run(group, (3,)) == (1 + 2 + 3 + 4) * STEPS


# --- the numbers --------------------------------------------------------------------------------

DIVISIONS: tuple[Parts, ...] = ((1,), (3,), (STEPS,), (3, 1), (4, 2, 1))


def assert_same_numbers(graphs: list[Graph], reference: Graph, tolerance: float) -> None:
    arguments = [random_array(type_, seed) / 2 for seed, type_ in enumerate(reference.types)]
    expected = run(reference, arguments)
    for graph in graphs:
        verify(graph)
        for value, wanted in zip(run(graph, arguments), expected, strict=True):
            scale = float(np.max(np.abs(wanted)))
            np.testing.assert_allclose(value, wanted, rtol=0, atol=tolerance * scale)


# A step's sums have at most 16 terms, and 7 steps follow each other: a few hundred roundings.
F64, F32 = 1e-13, 5e-6


@pytest.mark.parametrize("program", [*ON_MATRICES, *ON_ROWS, *SECOND], ids=lambda f: f.__name__)
def test_the_numbers_are_the_same(program: Callable[..., Any]) -> None:
    graph = graph_of(program, "float64")
    joined = normal_loops(join_loops(normal_loops(graph)))
    absorbed = normal_loops(join_loops(normal_loops(absorb(joined))))
    assert find_groups(absorbed)
    assert_same_numbers([divided(absorbed, parts) for parts in ((3,), (4, 2, 1))], graph, F64)


@pytest.mark.parametrize("parts", DIVISIONS, ids=str)
@pytest.mark.parametrize("program", [loops.two_states, loops.both_ways, loops.second_order])
def test_every_division_gives_the_same(program: Callable[..., Any], parts: Parts) -> None:
    graph = graph_of(program)
    assert_same_numbers([divided(normal_loops(graph), parts)], graph, F32)
