"""Steps are divided so that what is kept is as little as the number of runs allows."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from tests.split import loops
from tests.split.loops import differentiated
from tests.split.planning import floats, graph_for
from tf_memsafe.split.divisions import (
    MOST_COPIES,
    copies,
    divisions,
    even_parts,
    kept_bytes,
    steps_run,
)
from tf_memsafe.split.normal import normal_loops
from tf_memsafe.split.sweeps import Group, find_groups


def group_of(steps: int) -> Group:
    function = differentiated(lambda x, y: loops.power(x, y, steps))
    (group,) = find_groups(normal_loops(graph_for(function, floats(4, 4), floats(4, 4))))
    return group


@pytest.mark.parametrize("steps", [2, 3, 7, 100, 10_007])
def test_each_division_keeps_less_and_runs_no_fewer_steps(steps: int) -> None:
    group = group_of(steps)
    found = list(divisions(group))
    assert found[0] == (1,)
    later = found[1:]
    assert all(kept_bytes(group, a) > kept_bytes(group, b) for a, b in pairwise(later))
    assert all(steps_run(group, a) <= steps_run(group, b) for a, b in pairwise(later))
    for parts in later:
        assert steps > parts[0]
        assert all(a % b == 0 and a > b for a, b in pairwise(parts))


def test_one_level_is_about_the_best_there_is() -> None:
    group = group_of(100)
    best = min(kept_bytes(group, (size,)) for size in range(2, 100))
    assert kept_bytes(group, even_parts(group, 1)) <= 1.1 * best


def test_two_levels_are_about_the_best_there_are() -> None:
    group = group_of(1000)
    sizes = product(range(2, 40), range(2, 40))
    best = min(kept_bytes(group, (few * each, each)) for few, each in sizes)
    assert kept_bytes(group, even_parts(group, 2)) <= 1.2 * best


def test_what_is_kept_grows_with_the_logarithm_of_the_steps() -> None:
    state = group_of(100).state_bytes
    few = [kept_bytes(group, list(divisions(group))[-1]) for group in map(group_of, (100, 10_000))]
    assert few[0] <= 20 * state
    assert few[1] <= 40 * state


def test_nothing_is_kept_where_there_is_no_state() -> None:
    function = differentiated(loops.stateless)
    graph = graph_for(function, floats(100, 4, 4), floats(4, 4))
    (group,) = find_groups(normal_loops(graph))
    assert list(divisions(group)) == [(1,)]
    assert kept_bytes(group, (1,)) == 0


def test_programs_do_not_grow_without_end() -> None:
    graph = graph_for(loops.second_order, floats(4, 4), floats(4, 4))
    (group,) = find_groups(normal_loops(graph))
    assert all(copies(group, parts) <= MOST_COPIES for parts in divisions(group))
