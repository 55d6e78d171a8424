"""Long sums of what is computed for all pairs: in parts, where that is computed once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.rewrite.rewriting import both, reasons, rewritten, rules, shown, special
from tests.split.planning import floats
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite import elements, sum_in_parts
from tf_memsafe.rewrite.driver import apply
from tf_memsafe.rewrite.maths import dot
from tf_memsafe.rewrite.rule import Optimizer

RULES = Optimizer("parts", (sum_in_parts.product_in_parts, sum_in_parts.sum_in_parts))
EPSILON = {"float32": 6e-8, "float64": 1.2e-16}
Function = Callable[..., tf.Tensor]


@pytest.fixture(autouse=True)
def _however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elements, "FEWEST_ELEMENTS", 0)
    monkeypatch.setattr(sum_in_parts, "SHORTEST_PART", 2)
    monkeypatch.setattr(sum_in_parts, "PARTS", 2)


def laplace(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.exp(-tf.abs(x[:, None] - y[None]))


def product(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.linalg.matvec(laplace(x, y), v)


def column(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return laplace(x, y) @ v[:, None]


def from_the_left(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.matmul(v[None], laplace(x, y), transpose_b=True)


def row_sums(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(laplace(x, y) * v + tf.sign(v), -1)


def batched(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    scaled = tf.stack([x, 2 * x, x * x])[:, :, None]
    return tf.linalg.matvec(tf.exp(-tf.abs(scaled - y)), tf.stack([v, 2 * v, v * v]))


# --- what it makes ------------------------------------------------------------------------------


def test_a_product_with_a_vector() -> None:
    result = rewritten(RULES, product, floats(30), floats(40), floats(40))
    assert rules(result) == ["product_in_parts"]
    assert shown(result.graph) == [
        "graph(%1: f32[30], %2: f32[40], %3: f32[40]):",
        "%4 = broadcast_in_dim(%1) broadcast_dimensions=[0] : f32[30,20]",
        "%5 = slice(%2) start_indices=[0] limit_indices=[20] strides=[1] : f32[20]",
        "%6 = broadcast_in_dim(%5) broadcast_dimensions=[1] : f32[30,20]",
        "%7 = subtract(%4, %6) : f32[30,20]",
        "%8 = abs(%7) : f32[30,20]",
        "%9 = negate(%8) : f32[30,20]",
        "%10 = exponential(%9) : f32[30,20]",
        "%11 = reshape(%3) : f32[40,1]",
        "%12 = reshape(%11) : f32[40]",
        "%13 = slice(%12) start_indices=[0] limit_indices=[20] strides=[1] : f32[20]",
        "%14 = broadcast_in_dim(%13) broadcast_dimensions=[1] : f32[30,20]",
        "%15 = multiply(%10, %14) : f32[30,20]",
        "%16 = slice(%2) start_indices=[20] limit_indices=[40] strides=[1] : f32[20]",
        "%17 = broadcast_in_dim(%16) broadcast_dimensions=[1] : f32[30,20]",
        "%18 = subtract(%4, %17) : f32[30,20]",
        "%19 = abs(%18) : f32[30,20]",
        "%20 = negate(%19) : f32[30,20]",
        "%21 = exponential(%20) : f32[30,20]",
        "%22 = slice(%12) start_indices=[20] limit_indices=[40] strides=[1] : f32[20]",
        "%23 = broadcast_in_dim(%22) broadcast_dimensions=[1] : f32[30,20]",
        "%24 = multiply(%21, %23) : f32[30,20]",
        "%25 = add(%15, %24) : f32[30,20]",
        "%26 = constant() 1.0 : f32[]",
        "%27 = broadcast_in_dim(%26) broadcast_dimensions=[] : f32[20]",
        "%28 = dot_general(%25, %27) contract [1]x[0] : f32[30]",
        "%29 = reshape(%28) : f32[30,1]",
        "%30 = reshape(%29) : f32[30]",
        "return %30",
    ]


@pytest.mark.parametrize("function", [column, from_the_left, batched, row_sums])
def test_other_spellings(function: Function) -> None:
    result = rewritten(RULES, function, floats(50), floats(47), floats(47))
    assert rules(result) == ["sum_in_parts" if function is row_sums else "product_in_parts"]


# --- what it leaves alone -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, v: tf.linalg.matvec(tf.exp(x), v), [(50, 40), (40,)]),
        (lambda x, v: tf.linalg.matvec(x @ tf.transpose(x), v), [(50, 2), (50,)]),
        (lambda x, v: laplace(x, x) @ v, [(50,), (50, 2)]),
        (lambda x: tf.reduce_sum(laplace(x, x), 0), [(50,)]),
        (lambda x: tf.reduce_sum(laplace(x, x)), [(50,)]),
        (lambda x: tf.reduce_max(laplace(x, x), -1), [(50,)]),
        (lambda x, y: tf.reduce_sum(laplace(x, y), -1), [(50,), (3,)]),
        (lambda x, y: tf.reduce_sum(laplace(x, y), -1), [(0,), (50,)]),
    ],
    ids=["stored", "product", "two columns", "first axis", "all", "max", "short", "empty"],
)
def test_left_alone(function: Function, shapes: list[tuple[int, ...]]) -> None:
    result = rewritten(RULES, function, *(floats(*shape) for shape in shapes))
    assert not result.rewrites
    assert not result.refusals


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "complex64"])
def test_other_dtypes_are_left(dtype: str) -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        return tf.linalg.matvec(x[:, None] * x[None] + x[:, None], x)

    assert not rules(rewritten(RULES, function, tf.TensorSpec([50], dtype)))


def test_what_several_users_read_is_left() -> None:
    def function(x: tf.Tensor, v: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        values = laplace(x, x)
        return tf.linalg.matvec(values, v), tf.reduce_max(values, 0)

    result = rewritten(RULES, function, floats(50), floats(50))
    assert reasons(result) == {
        "product_in_parts": "it would be computed again for each of its users"
    }


@pytest.mark.parametrize("first", [True, False])
def test_a_batch_axis_that_is_not_the_first_is_left(first: bool) -> None:
    x, v = build.region_parameters([TensorType("f32", shape) for shape in ((50,), (50, 60))])
    shape, batch = ((50, 30, 60), 0) if first else ((30, 50, 60), 1)
    values = build.emit("exponential", (build.broadcast(x, shape, [batch]),))
    product = dot(values, v, DotNumbers((batch,), (0,), (2,), (1,)))
    result = apply(RULES, Graph((x, v), (product,)))
    assert rules(result) == ["product_in_parts"] * first


@pytest.mark.parametrize(("width", "fires"), [(9, True), (10, False)])
def test_many_values_are_left(width: int, fires: bool) -> None:
    def function(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        distances = [tf.abs(x[:, i, None] - y[None, :, i]) for i in range(width)]
        return tf.linalg.matvec(tf.exp(tf.add_n(distances)), v)

    result = rewritten(RULES, function, floats(90, width), floats(90, width), floats(90))
    assert bool(rules(result)) == fires
    reason = "it is computed of 21 values, too many to be read in vectors"
    assert reasons(result) == ({} if fires else {"product_in_parts": reason})


# --- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", EPSILON)
@pytest.mark.parametrize("parts", [2, 10])
@pytest.mark.parametrize("length", [100, 101, 109])
@pytest.mark.parametrize("function", [product, column, from_the_left, batched, row_sums])
def test_numbers(
    function: Function, length: int, parts: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sum_in_parts, "PARTS", parts)
    generator = np.random.default_rng(0)
    x, y, v = (generator.normal(size=n).astype(dtype) for n in (50, length, length))
    ((got, plain),) = both(RULES, function, x, y, v)
    assert got.shape == plain.shape
    # Each of the sums is rounded once, on either side, and none is larger than that of all |v|.
    largest = np.abs(3 * v).sum() + np.abs(v * v).sum() + length
    np.testing.assert_allclose(got, plain, rtol=0, atol=2 * length * EPSILON[dtype] * largest / 10)


def test_nan_and_infinities_stay_where_they_were() -> None:
    generator = np.random.default_rng(0)
    x, y, v = (generator.normal(size=n).astype(np.float32) for n in (50, 45, 45))
    for arguments in (
        (special(x, [np.nan, np.inf, -np.inf]), y, v),
        (x, y, special(v, [np.inf])),
        (x, y, special(v, [np.inf, -np.inf])),
        (x, special(y, [np.nan]), v),
    ):
        ((got, plain),) = both(RULES, product, *arguments)
        np.testing.assert_allclose(got, plain, rtol=1e-5, atol=1e-6)
