from __future__ import annotations

from collections.abc import Iterator

import pytest

import tf_memsafe
from tests.rewrite.rewriting import graph_for
from tests.split.planning import floats
from tf_memsafe.rewrite.pipeline import OPTIMIZERS, rewrite

NAMES = [optimizer.name for optimizer in OPTIMIZERS]


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


def test_an_optimizer_that_is_off_does_nothing() -> None:
    graph = graph_for(lambda x: x**2, floats(4))
    off = rewrite(graph, dict.fromkeys(NAMES, False))
    assert (off.graph, off.rewrites, off.refusals) == (graph, (), ())
    assert rewrite(graph, dict.fromkeys(NAMES, True)).rewrites
