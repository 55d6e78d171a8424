"""As little as possible of a loop's steps is computed again for it to fit."""

from __future__ import annotations

import pytest

from tests.split import loops
from tests.split.loops import differentiated, stack_shapes, whiles
from tests.split.planning import floats, graph_for
from tests.split.test_segments import graph_of
from tf_memsafe.hlo.node import Graph
from tf_memsafe.split.checkpoint import checkpoint_loops
from tf_memsafe.split.divisions import divisions
from tf_memsafe.split.liveness import estimate_peak
from tf_memsafe.split.normal import normal_loops
from tf_memsafe.split.segments import write_segments
from tf_memsafe.split.sweeps import find_groups

SQUARE = floats(8, 8)
STEPS = 100


def long_loop() -> Graph:
    function = differentiated(lambda x, y: loops.power(x, y, STEPS))
    return graph_for(function, SQUARE, SQUARE)


def test_no_more_is_computed_again_than_the_room_asks_for() -> None:
    graph = long_loop()
    normal = normal_loops(graph)
    (group,) = find_groups(normal)
    needed = {
        parts: estimate_peak(write_segments(normal, group, parts)) for parts in divisions(group)
    }
    least = estimate_peak(normal)
    for parts, peak in needed.items():
        if peak < least:
            (found,) = checkpoint_loops(graph, peak).checkpoints
            assert found.parts == parts
        least = min(least, peak)
    assert estimate_peak(checkpoint_loops(graph, 0).graph) == least


def test_a_graph_with_room_is_left_alone() -> None:
    graph = long_loop()
    found = checkpoint_loops(graph, estimate_peak(graph))
    assert found.graph is graph
    assert found.checkpoints == ()


def test_what_is_computed_again_is_recorded() -> None:
    graph = long_loop()
    (found,) = checkpoint_loops(graph, estimate_peak(graph) // 6).checkpoints
    forward, backward = found.loops
    assert (forward.name, backward.name) == ("while", "while")
    assert forward.source is not None
    assert found.trips == STEPS
    assert found.again == STEPS * len(found.parts)
    assert found.has_state


def test_each_loop_has_its_own_checkpoints() -> None:
    graph = graph_of(loops.one_after_the_other)
    smallest = checkpoint_loops(graph, 0)
    assert len(smallest.checkpoints) == 2
    assert estimate_peak(smallest.graph) < estimate_peak(graph)


def test_losses_over_outputs_leave_no_stack() -> None:
    graph = graph_for(differentiated(loops.norm_of_outputs), floats(STEPS, 8, 8), SQUARE)
    found = checkpoint_loops(graph, 0)
    assert found.checkpoints
    for loop in whiles(found.graph):
        wide = [shape for shape in stack_shapes(loop) if shape[0] >= STEPS]
        assert len(wide) <= 1  # the gradient to the rows is a result


@pytest.mark.parametrize("steps", [100, 1000])
def test_the_peak_grows_far_slower_than_the_steps(steps: int) -> None:
    function = differentiated(lambda x, y: loops.power(x, y, steps))
    graph = graph_for(function, SQUARE, SQUARE)
    assert estimate_peak(checkpoint_loops(graph, 0).graph) <= 30 * 4 * 8 * 8
    assert estimate_peak(graph) > 2 * steps * 4 * 8 * 8
