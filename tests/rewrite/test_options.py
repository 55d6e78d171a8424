from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import tf_memsafe
from tests.rewrite.rewriting import graph_for
from tests.split.planning import floats
from tf_memsafe.rewrite.options import override_options
from tf_memsafe.rewrite.pipeline import NAMES, rewrite


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = tf_memsafe.get_optimizer_options()
    yield
    tf_memsafe.set_optimizer_options(before)


def test_all_optimizers_are_on_to_begin_with() -> None:
    assert tf_memsafe.get_optimizer_options() == dict.fromkeys(NAMES, True)


def test_an_optimizer_is_switched_off_and_the_others_stay() -> None:
    tf_memsafe.set_optimizer_options({NAMES[0]: False})
    expected = {**dict.fromkeys(NAMES, True), NAMES[0]: False}
    assert tf_memsafe.get_optimizer_options() == expected


def test_what_is_returned_is_a_copy() -> None:
    tf_memsafe.get_optimizer_options()[NAMES[0]] = False
    assert tf_memsafe.get_optimizer_options()[NAMES[0]]


@pytest.mark.parametrize("options", [{"canonicall": False}, {"canonical": 1}, {"canonical": None}])
def test_a_wrong_name_or_value_is_refused_and_changes_nothing(options: dict[str, bool]) -> None:
    with pytest.raises(ValueError, match=r"not an optimizer; there are canonical|True or False"):
        tf_memsafe.set_optimizer_options({NAMES[0]: False, **options})
    assert tf_memsafe.get_optimizer_options() == dict.fromkeys(NAMES, True)


def test_what_does_not_map_names_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\['canonical'\] does not map names .* canonical, "):
        tf_memsafe.set_optimizer_options(["canonical"])  # type: ignore[arg-type]


def test_options_of_a_block_come_first_and_end_with_it() -> None:
    tf_memsafe.set_optimizer_options({NAMES[1]: False})
    with override_options({NAMES[0]: False, NAMES[1]: True}):
        inside = tf_memsafe.get_optimizer_options()
    assert inside == {**dict.fromkeys(NAMES, True), NAMES[0]: False}
    assert tf_memsafe.get_optimizer_options() == {**inside, NAMES[0]: True, NAMES[1]: False}


def test_options_of_a_block_are_for_one_thread() -> None:
    with override_options({NAMES[0]: False}), ThreadPoolExecutor(1) as pool:
        assert pool.submit(tf_memsafe.get_optimizer_options).result()[NAMES[0]]


def test_an_optimizer_that_is_off_does_nothing() -> None:
    graph = graph_for(lambda x: x**2, floats(4))
    off = rewrite(graph, dict.fromkeys(NAMES, False))
    assert (off.graph, off.rewrites, off.refusals) == (graph, (), ())
    assert rewrite(graph, dict.fromkeys(NAMES, True)).rewrites
