"""What one back end is slow at: what is put in its place, and what XLA makes of that."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.running import graph_of, run, spec
from tests.rewrite.rewriting import assert_close, graph_for, reasons, rewritten, rules, shown
from tests.split.planning import floats
from tf_memsafe import xla
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.writer import write
from tf_memsafe.rewrite import target
from tf_memsafe.rewrite.canonical import CANONICAL
from tf_memsafe.rewrite.driver import apply
from tf_memsafe.rewrite.target import TARGET

EPSILON = {np.float32: 6e-8, np.float64: 2e-16}


def product(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.matmul(x, y, transpose_b=True)


# --- a tiny inner size --------------------------------------------------------------------------


def test_a_product_of_inner_size_2() -> None:
    result = rewritten(TARGET, product, floats(40, 2), floats(30, 2))
    assert rules(result) == ["tiny_inner_size"]
    assert shown(result.graph) == [
        "graph(%1: f32[40,2], %2: f32[30,2]):",
        "%3 = slice(%1) start_indices=[0,0] limit_indices=[40,1] strides=[1,1] : f32[40,1]",
        "%4 = reshape(%3) : f32[40]",
        "%5 = broadcast_in_dim(%4) broadcast_dimensions=[0] : f32[40,30]",
        "%6 = slice(%2) start_indices=[0,0] limit_indices=[30,1] strides=[1,1] : f32[30,1]",
        "%7 = reshape(%6) : f32[30]",
        "%8 = broadcast_in_dim(%7) broadcast_dimensions=[1] : f32[40,30]",
        "%9 = multiply(%5, %8) : f32[40,30]",
        "%10 = slice(%1) start_indices=[0,1] limit_indices=[40,2] strides=[1,1] : f32[40,1]",
        "%11 = reshape(%10) : f32[40]",
        "%12 = broadcast_in_dim(%11) broadcast_dimensions=[0] : f32[40,30]",
        "%13 = slice(%2) start_indices=[0,1] limit_indices=[30,2] strides=[1,1] : f32[30,1]",
        "%14 = reshape(%13) : f32[30]",
        "%15 = broadcast_in_dim(%14) broadcast_dimensions=[1] : f32[40,30]",
        "%16 = multiply(%12, %15) : f32[40,30]",
        "%17 = add(%9, %16) : f32[40,30]",
        "return %17",
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("equation", ["nk,mk->nm", "kn,km->nm", "bnk,bkm->bnm", "bkxy,bzk->bxyz"])
@pytest.mark.parametrize("inner", [2, 3])
def test_numbers(equation: str, inner: int, dtype: type[object]) -> None:
    sizes = {"n": 17, "m": 20, "b": 3, "x": 4, "y": 5, "z": 16, "k": inner}
    generator = np.random.default_rng(0)
    shapes = [[sizes[axis] for axis in side] for side in equation.partition("->")[0].split(",")]
    numbers: list[np.ndarray] = [generator.normal(size=shape).astype(dtype) for shape in shapes]
    x, y = numbers
    x[(0,) * x.ndim], y[(1,) * y.ndim] = np.nan, np.inf
    # Each of at most 3 products, and each of the 2 sums, is rounded once on either side.
    assert_close(TARGET, 8 * EPSILON[dtype], lambda x, y: tf.einsum(equation, x, y), x, y)


@pytest.mark.parametrize(
    ("types", "reason"),
    [
        ((floats(40, 3), floats(15, 3)), "a product of 40 rows and 15 columns is fast enough"),
        (
            (tf.TensorSpec((40, 2), tf.float16), tf.TensorSpec((30, 2), tf.float16)),
            "a sum of products in f16 is rounded more often",
        ),
    ],
)
def test_products_that_stay(types: Sequence[tf.TensorSpec], reason: str) -> None:
    result = rewritten(TARGET, product, *types)
    assert not result.rewrites
    assert reasons(result) == {"tiny_inner_size": reason}


@pytest.mark.parametrize("inner", [1, 4, 100])
def test_other_inner_sizes_are_left_without_a_word(inner: int) -> None:
    result = rewritten(TARGET, product, floats(40, inner), floats(30, inner))
    assert not result.rewrites
    assert not result.refusals


def test_xla_computes_the_sum_with_its_user() -> None:
    plain, better = both(lambda x, y: tf.exp(product(x, y)), floats(400, 3), floats(500, 3))
    assert passes(plain) == 2
    assert passes(better) == 1
    assert peak(better) <= peak(plain)


# --- a reduction of a product's rows -------------------------------------------------------------

REDUCERS = {"add": tf.reduce_sum, "maximum": tf.reduce_max, "minimum": tf.reduce_min}
LONG = floats(20, 16), floats(16, 50_000)


def both(function: Callable[..., tf.Tensor], *types: tf.TensorSpec) -> tuple[Graph, Graph]:
    """A function's graph in canonical form, and after the optimizer."""
    plain = apply(CANONICAL, graph_for(function, *types)).graph
    return plain, apply(TARGET, plain).graph


def compiled(graph: Graph) -> tuple[xla.ConcreteFunction, list[tf.TensorSpec]]:
    types = list(map(spec, graph.types))
    outputs = [spec(output.tensor) for output in graph.outputs]
    return xla.stablehlo_function(write(graph), types, outputs), types


def peak(graph: Graph) -> int:
    return xla.measure(*compiled(graph)).peak


def entry(graph: Graph) -> str:
    """The outermost computation of what XLA makes of a graph."""
    return xla.optimized_hlo(*compiled(graph)).partition("\nENTRY ")[2]


def passes(graph: Graph) -> int:
    """How many operations XLA's program has, but for the parameters."""
    return len(re.findall(r"^  .* = (?!.* parameter\()", entry(graph), re.MULTILINE))


def calls_product(graph: Graph) -> bool:
    """Whether XLA's program has the product as an operation of its own, fused with nothing."""
    return " dot(" in entry(graph)


@pytest.mark.parametrize("reducer", REDUCERS)
def test_xla_keeps_the_product_apart(reducer: str) -> None:
    plain, better = both(lambda x, y: REDUCERS[reducer](x @ y, -1), *LONG)
    assert plain != better
    assert not calls_product(plain)
    assert calls_product(better)
    # The product's buffer is counted now; the maxima of parts of rows take 1/32 of it.
    dot_bytes = 20 * 50_000 * 4
    assert dot_bytes <= peak(better) - peak(plain) <= 1.05 * dot_bytes


def test_reducers_are_disguised() -> None:
    result = rewritten(TARGET, lambda x, y: tf.reduce_max(x @ y, -1), *LONG)
    assert rules(result) == ["long_rows_of_product"]
    region = result.graph.outputs[0].regions[0]
    (outer,) = region.results
    (inner,) = outer.operands
    assert [outer.name, inner.name] == ["negate", "minimum"]
    assert [operand.name for operand in inner.operands] == ["negate", "negate"]


@pytest.mark.parametrize("reducer", REDUCERS)
def test_disguised_reducers_change_no_bit(reducer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "SHORTEST_FUSED_ROW", 0)
    monkeypatch.setattr(target, "FEW_ELEMENTS", 0)

    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return REDUCERS[reducer](x @ y, -1)

    # Whole numbers, so that sums are exact in any order; rows of nothing but -0, of NaN, of inf.
    generator = np.random.default_rng(0)
    x, y = (generator.integers(-9, 9, shape).astype(np.float32) for shape in ((7, 1), (1, 65)))
    x[:5, 0], y[y == 0] = [-0.0, np.nan, np.inf, -np.inf, 0.0], 1
    graph = graph_of(function, x, y)
    result = apply(TARGET, apply(CANONICAL, graph).graph)
    assert rules(result) == ["long_rows_of_product"]
    (found,), (expected,) = run(result.graph, [x, y]), run(graph, [x, y])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize(
    ("function", "types"),
    [
        (lambda x, y: tf.reduce_sum(x @ y, -1), (floats(200, 16), floats(16, 50_000))),
        (lambda x, y: tf.reduce_sum(x @ y, -1), (floats(20, 16), floats(16, 5_000))),
        (lambda x, y: tf.reduce_sum(x @ y, -1), (floats(20, 15), floats(15, 50_000))),
        (lambda x, y: tf.reduce_sum(x @ y, 0), LONG),
        (lambda x, y: tf.reduce_prod(x @ y, -1), LONG),
        (lambda x, y: tf.reduce_sum(tf.exp(x @ y), -1), LONG),
        (lambda x, y: tf.reduce_sum(tf.cast(x, tf.float64) @ tf.cast(y, tf.float64), -1), LONG),
    ],
)
def test_reductions_that_stay(
    function: Callable[..., tf.Tensor], types: Sequence[tf.TensorSpec]
) -> None:
    result = rewritten(TARGET, function, *types)
    assert not result.rewrites
    assert not result.refusals
