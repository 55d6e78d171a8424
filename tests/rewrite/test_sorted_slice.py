"""A few elements of what is sorted are a top k, however they are taken."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.running import graph_of, names, run
from tests.rewrite.rewriting import graph_for, reasons, rules, shown
from tests.split.planning import floats
from tf_memsafe.rewrite.driver import Rewritten, apply
from tf_memsafe.rewrite.pipeline import NAMES, rewrite
from tf_memsafe.rewrite.sorted_slice import SORTED_SLICE

ALL = dict.fromkeys(NAMES, True)

SPELLINGS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "smallest": lambda x: tf.sort(x)[..., :3],
    "largest, upwards": lambda x: tf.sort(x)[..., -3:],
    "largest, downwards": lambda x: tf.sort(x)[..., ::-1][..., :3],
    "largest, of a descending sort": lambda x: tf.sort(x, direction="DESCENDING")[..., :3],
    "another axis": lambda x: tf.sort(x, 0)[:3],
    "the end of another axis": lambda x: tf.sort(x, 0)[-3:],
    "not the first": lambda x: tf.sort(x)[..., 1:4],
    "one": lambda x: tf.sort(x)[..., 2],
    "the last but one": lambda x: tf.sort(x)[..., -2],
    "after arithmetic": lambda x: tf.cast(2 * tf.sort(x) + 1, tf.float64)[..., :2],
    "positions": lambda x: tf.argsort(x)[..., :3],
    "last positions": lambda x: tf.argsort(x)[..., -3:],
    "last positions, downwards": lambda x: tf.argsort(x)[..., ::-1][..., :3],
    "positions along another axis": lambda x: tf.argsort(x, 0, direction="DESCENDING")[:3],
}


def with_ties(dtype: type) -> np.ndarray:
    values: np.ndarray = np.random.default_rng(0).integers(0, 6, (9, 9)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        values[0, :6] = [np.nan, -np.inf, np.inf, -0.0, 0.0, -0.0]
    return values


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_to_the_last_bit(spelling: str, dtype: type) -> None:
    values = with_ties(dtype)
    plain = graph_of(SPELLINGS[spelling], values)
    result = rewrite(plain, ALL)
    assert "sort" not in names(result.graph)
    assert names(result.graph) >= {"top_k"}
    (found,), (expected,) = run(result.graph, [values]), run(plain, [values])
    assert (found.dtype, found.tobytes()) == (expected.dtype, expected.tobytes())


def rewritten(function: Callable[[tf.Tensor], tf.Tensor]) -> Rewritten:
    return rewrite(graph_for(function, floats(9, 9)), ALL)


def test_the_largest_upwards() -> None:
    result = rewritten(SPELLINGS["largest, upwards"])
    assert {"slice_of_what_was_sorted", "part_of_sorted"} <= set(rules(result))
    assert shown(result.graph) == [
        "graph(%1: f32[9,9]):",
        "%2 = top_k(%1) k=3 : f32[9,3], i32[9,3]",
        "%3 = reverse(%2.0) dimensions=[1] : f32[9,3]",
        "return %3",
    ]


def test_positions_from_the_end() -> None:
    result = rewritten(SPELLINGS["last positions"])
    assert shown(result.graph) == [
        "graph(%1: f32[9,9]):",
        "%2 = constant() 8 : i32[]",
        "%3 = broadcast_in_dim(%2) broadcast_dimensions=[] : i32[9,3]",
        "%4 = reverse(%1) dimensions=[1] : f32[9,9]",
        "%5 = top_k(%4) k=3 : f32[9,3], i32[9,3]",
        "%6 = subtract(%3, %5.1) : i32[9,3]",
        "%7 = reverse(%6) dimensions=[1] : i32[9,3]",
        "return %7",
    ]


def test_most_of_what_is_sorted() -> None:
    result = rewritten(lambda x: tf.sort(x)[..., 2:7])
    assert "7 of 9 elements are as much work as sorting all" in reasons(result).values()
    assert "sort" in names(result.graph)


def test_a_sort_that_is_no_descending_one() -> None:
    result = rewritten(lambda x: tf.math.approx_max_k(x, 3)[1])
    assert "it is not a descending sort" in reasons(result)["part_of_sorted"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.sort(x)[..., ::2],
        lambda x: tf.sort(x)[:3],
        lambda x: tf.sort(x)[:2, :2],
        lambda x: (tf.sort(x) + x)[..., :3],
        lambda x: tf.nn.softmax(tf.sort(x))[..., :3],
    ],
)
def test_what_is_no_part_of_a_sorted_axis_is_left_alone(
    function: Callable[[tf.Tensor], tf.Tensor],
) -> None:
    result = apply(SORTED_SLICE, rewrite(graph_for(function, floats(9, 9)), ALL).graph)
    assert not result.rewrites
    assert "sort" in names(result.graph)
