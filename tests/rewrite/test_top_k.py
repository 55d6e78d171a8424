"""top_k by groups and as f32: to the last bit what the plain op gives."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hlo.running import graph_of, names, run
from tests.rewrite.rewriting import rules, shown
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.simplify import simplify
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite import top_k
from tf_memsafe.rewrite.driver import Rewritten, apply, apply_everywhere
from tf_memsafe.rewrite.rule import Optimizer
from tf_memsafe.rewrite.top_k import TOP_K, top_k_by_groups

NARROW = ("f16", "bf16", "i8", "ui8", "i16", "ui16", "i32", "ui32")
DTYPES = (*NARROW, "f32", "f64", "i64", "ui64")


@pytest.fixture
def small_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of any size are worth rewriting."""
    monkeypatch.setattr(top_k, "FEWEST_ELEMENTS", 0)
    monkeypatch.setattr(top_k, "FEWEST_SORTED", 0)


def graph(dtype: str, shape: tuple[int, ...], k: int, *taken: int) -> Graph:
    """The top k of a parameter: the values (0), the positions (1), or both."""
    (x,) = build.region_parameters([TensorType(dtype, shape)])
    both = build.results(build.emit("top_k", (x,), {"k": k}))
    return Graph((x,), tuple(both[index] for index in taken or (0, 1)))


def reasons(result: Rewritten) -> set[str]:
    return {refusal.reason for refusal in result.refusals}


def lines(result: Rewritten) -> list[str]:
    """The graph as text, without the gathers' numbers."""
    numbers = re.compile("dimension_numbers=.*index_vector_dim = 2> ")
    return [numbers.sub("", line) for line in shown(result.graph)]


def assert_exact(dtype: str, values: np.ndarray, k: int, *taken: int, fires: bool = True) -> None:
    """The same bits as the plain op gives, which XLA sorts all for."""
    plain = graph(dtype, values.shape, k, *taken)
    result = apply(TOP_K, plain)
    assert bool(result.rewrites) == fires
    assert [o.type for o in result.graph.outputs] == [o.type for o in plain.outputs]
    for found, expected in zip(run(result.graph, [values]), run(plain, [values]), strict=True):
        assert found.tobytes() == expected.tobytes()


def awkward(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Rows of many ties, of the lowest value alone, and of all that is special."""
    kind = np.dtype(build.NUMPY_DTYPES[dtype])
    generator = np.random.default_rng(seed)
    values = generator.integers(0, 5, shape).astype(kind)
    if dtype in ("f16", "bf16", "f32", "f64"):
        lowest: list[Any] = [-np.inf, -np.nan]
        specials = [np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0]
    else:
        lowest = [np.iinfo(kind).min]
        specials = [np.iinfo(kind).min, np.iinfo(kind).max, 0]
    rows = values.reshape(-1, shape[-1])
    for row, value in zip(rows, lowest, strict=False):
        row[:] = value
    for row in rows[len(lowest) :: 2]:
        where = generator.random(row.shape) < 0.3
        row[where] = generator.choice(np.array(specials, kind), where.sum())
    return values


# --- what it makes ------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_arrays")
def test_by_groups() -> None:
    result = apply(Optimizer("groups", (top_k_by_groups,)), graph("i64", (2, 42), 1))
    assert rules(result) == ["top_k_by_groups"] * 2
    assert lines(result) == [
        "graph(%1: i64[2,42]):",
        "%2 = slice(%1) start_indices=[0,0] limit_indices=[2,40] strides=[1,1] : i64[2,40]",
        "%3 = reshape(%2) : i64[2,5,8]",
        "%4 = constant() -9223372036854775808 : i64[]",
        "%5 = reduce(%3, %4) dimensions=[2] : i64[2,5]",
        "%9 = top_k(%5) k=1 : i64[2,1], i32[2,1]",
        "%10 = sort(%9.1) dimension=1 is_stable=False : i32[2,1]",
        "%14 = constant() 8 : i32[]",
        "%15 = broadcast_in_dim(%14) broadcast_dimensions=[] : i32[2,1]",
        "%16 = multiply(%10, %15) : i32[2,1]",
        "%17 = reshape(%16) : i32[2,1,1]",
        "%18 = gather(%1, %17) slice_sizes=[1,8] : i64[2,1,8]",
        "%19 = reshape(%18) : i64[2,8]",
        "%20 = slice(%1) start_indices=[0,40] limit_indices=[2,42] strides=[1,1] : i64[2,2]",
        "%21 = concatenate(%19, %20) dimension=1 : i64[2,10]",
        "%22 = top_k(%21) k=1 : i64[2,1], i32[2,1]",
        "%23 = broadcast_in_dim(%16) broadcast_dimensions=[0,1] : i32[2,1,8]",
        "%24 = iota() iota_dimension=2 : i32[2,1,8]",
        "%25 = add(%23, %24) : i32[2,1,8]",
        "%26 = reshape(%25) : i32[2,8]",
        "%27 = iota() iota_dimension=1 : i32[2,2]",
        "%28 = constant() 40 : i32[]",
        "%29 = broadcast_in_dim(%28) broadcast_dimensions=[] : i32[2,2]",
        "%30 = add(%27, %29) : i32[2,2]",
        "%31 = concatenate(%26, %30) dimension=1 : i32[2,10]",
        "%32 = reshape(%22.1) : i32[2,1,1]",
        "%33 = gather(%31, %32) slice_sizes=[1,1] : i32[2,1,1]",
        "%34 = reshape(%33) : i32[2,1]",
        "return %22.0, %34",
    ]


@pytest.mark.usefixtures("small_arrays")
def test_maxima_are_grouped_again() -> None:
    result = apply(TOP_K, graph("f32", (3, 2000), 2, 1))
    assert rules(result) == ["top_k_by_groups"] * 2
    nodes = topological(result.graph.outputs)
    searched = [node.operands[0].shape for node in nodes if node.name == "top_k"]
    assert searched == [(3, 31), (3, 16 + 250 % 8), (3, 16)]


def test_as_f32() -> None:
    result = apply(TOP_K, graph("i16", (2, 9), 3))
    assert rules(result) == ["top_k_as_f32"] * 2
    assert shown(result.graph) == [
        "graph(%1: i16[2,9]):",
        "%2 = convert(%1) : f32[2,9]",
        "%3 = top_k(%2) k=3 : f32[2,3], i32[2,3]",
        "%4 = convert(%3.0) : i16[2,3]",
        "return %4, %3.1",
    ]


@pytest.mark.usefixtures("small_arrays")
def test_by_ranks() -> None:
    result = apply(TOP_K, graph("i64", (2, 15), 3))
    assert rules(result) == ["top_k_by_ranks"] * 2
    assert lines(result) == [
        "graph(%1: i64[2,15]):",
        "%2 = constant() -9223372036854775808 : i64[]",
        "%3 = broadcast_in_dim(%2) broadcast_dimensions=[] : i64[2,1]",
        "%4 = concatenate(%1, %3) dimension=1 : i64[2,16]",
        "%5 = reshape(%4) : i64[2,2,8]",
        "%6 = broadcast_in_dim(%5) broadcast_dimensions=[0,2,3] : i64[2,16,2,8]",
        "%7 = broadcast_in_dim(%4) broadcast_dimensions=[0,1] : i64[2,16,2,8]",
        "%8 = compare(%6, %7) GT : i1[2,16,2,8]",
        "%9 = compare(%6, %7) EQ : i1[2,16,2,8]",
        "%10 = iota() iota_dimension=1 : i32[16,16]",
        "%11 = iota() iota_dimension=0 : i32[16,16]",
        "%12 = compare(%10, %11) LT : i1[16,16]",
        "%13 = reshape(%12) : i1[16,2,8]",
        "%14 = broadcast_in_dim(%13) broadcast_dimensions=[1,2,3] : i1[2,16,2,8]",
        "%15 = and(%9, %14) : i1[2,16,2,8]",
        "%16 = or(%8, %15) : i1[2,16,2,8]",
        "%17 = convert(%16) : i32[2,16,2,8]",
        "%18 = constant() 0 : i32[]",
        "%19 = reduce(%17, %18) dimensions=[2,3] : i32[2,16]",
        "%23 = reshape(%19) : i32[2,2,8]",
        "%24 = broadcast_in_dim(%23) broadcast_dimensions=[0,2,3] : i32[2,3,2,8]",
        "%25 = iota() iota_dimension=1 : i32[2,3,2,8]",
        "%26 = compare(%24, %25) EQ : i1[2,3,2,8]",
        "%27 = iota() iota_dimension=0 : i32[16]",
        "%28 = reshape(%27) : i32[2,8]",
        "%29 = broadcast_in_dim(%28) broadcast_dimensions=[2,3] : i32[2,3,2,8]",
        "%30 = broadcast_in_dim(%18) broadcast_dimensions=[] : i32[2,3,2,8]",
        "%31 = select(%26, %29, %30) : i32[2,3,2,8]",
        "%32 = reduce(%31, %18) dimensions=[2,3] : i32[2,3]",
        "%36 = reshape(%32) : i32[2,3,1]",
        "%37 = gather(%1, %36) slice_sizes=[1,1] : i64[2,3,1]",
        "%38 = reshape(%37) : i64[2,3]",
        "return %38, %32",
    ]


# --- what it leaves alone -----------------------------------------------------------------------


@pytest.mark.usefixtures("small_arrays")
@pytest.mark.parametrize(
    ("dtype", "n", "k", "reason"),
    [
        ("f32", 100, 5, "5 groups are too large a part of 100 elements"),
        ("i64", 200, 200, "200 groups are too large a part of 200 elements"),
        ("i64", 200, 200, "200 elements are too many to compare each with each"),
        ("i16", 9, 5, "5 of 9 elements are found as fast by sorting all"),
    ],
)
def test_refuses(dtype: str, n: int, k: int, reason: str) -> None:
    result = apply(TOP_K, graph(dtype, (2, n), k))
    assert not result.rewrites
    assert reason in reasons(result)


@pytest.mark.parametrize(
    ("dtype", "shape", "k"), [("f32", (3, 200), 1), ("f64", (3, 100), 1), ("f64", (2, 9), 0)]
)
def test_small_arrays_and_none_at_all_are_left_without_a_word(
    dtype: str, shape: tuple[int, ...], k: int
) -> None:
    plain = graph(dtype, shape, k)
    assert apply(TOP_K, plain) == Rewritten(plain)


# --- numbers ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_arrays")
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_to_the_last_bit(dtype: str) -> None:
    assert_exact(dtype, awkward(dtype, (16, 2051)), 7)


@pytest.mark.parametrize(
    ("dtype", "k", "fires"),
    [
        ("f32", 46, True),
        ("f32", 47, False),
        ("f64", 1, True),
        ("f64", 1000, False),
        ("f16", 47, True),
        ("i32", 500, True),
        ("i32", 501, False),
    ],
)
def test_every_k(dtype: str, k: int, fires: bool) -> None:
    assert_exact(dtype, awkward(dtype, (11, 1000)), k, fires=fires)


@pytest.mark.usefixtures("small_arrays")
@pytest.mark.parametrize("dtype", ["f64", "i64", "ui64"])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (7, 7), (8, 3), (33, 33), (128, 60)])
def test_ranks_of_every_length(dtype: str, n: int, k: int) -> None:
    assert_exact(dtype, awkward(dtype, (16, n)), k)


@pytest.mark.usefixtures("small_arrays")
@pytest.mark.parametrize("taken", [(0,), (1,), (1, 0)])
def test_values_or_positions_alone(taken: tuple[int, ...]) -> None:
    assert_exact("f64", awkward("f64", (7, 300)), 3, *taken)


@pytest.mark.usefixtures("small_arrays")
@pytest.mark.parametrize("shape", [(500,), (2, 3, 200), (1, 1, 1, 203)])
def test_any_rank(shape: tuple[int, ...]) -> None:
    assert_exact("f64", awkward("f64", shape), 4)


@pytest.mark.usefixtures("small_arrays")
def test_all_equal_come_in_order() -> None:
    plain = graph("f64", (2, 1000), 9)
    values, positions = run(apply(TOP_K, plain).graph, [np.full((2, 1000), -np.inf)])
    assert np.all(values == -np.inf)
    assert positions.tolist() == [list(range(9))] * 2


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(DTYPES), st.integers(1, 6), st.integers(25, 700), st.data(), st.integers(0, 99)
)
def test_any_n_and_k(dtype: str, rows: int, n: int, data: st.DataObject, seed: int) -> None:
    k = data.draw(st.integers(1, max(1, n // 25)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top_k, "FEWEST_ELEMENTS", 0)
        patch.setattr(top_k, "FEWEST_SORTED", 0)
        assert_exact(dtype, awkward(dtype, (rows, n), seed), k)


# --- in programs --------------------------------------------------------------------------------


def nearest(queries: tf.Tensor, points: tf.Tensor) -> Any:
    """The 3 nearest points of each query, a query at a time."""

    def of_one(query: tf.Tensor) -> Any:
        values, indices = tf.math.top_k(-tf.reduce_sum((points - query) ** 2, -1), 3)
        return values, indices

    return tf.map_fn(of_one, queries, fn_output_signature=(queries.dtype, tf.int32))


@pytest.mark.usefixtures("small_arrays")
def test_in_a_users_loop() -> None:
    generator = np.random.default_rng(0)
    # Few different points, so that many are equally near.
    arguments = [generator.integers(0, 4, (count, 2)).astype(np.float64) for count in (5, 400)]
    plain = simplify(graph_of(nearest, *arguments))
    result = apply_everywhere(TOP_K, plain)
    assert "top_k_by_groups" in rules(result)
    assert "gather" in names(result.graph)
    for found, expected in zip(run(result.graph, arguments), run(plain, arguments), strict=True):
        assert found.tobytes() == expected.tobytes()
