"""Sums of broadcast products become matrix products."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
import tensorflow as tf

from tests.rewrite.numpy_products import evaluate
from tests.rewrite.rewriting import assert_close, reasons, rewritten, shown, special
from tests.split.planning import floats
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.canonical import CANONICAL
from tf_memsafe.rewrite.contraction import CONTRACTION, SMALLEST_INNER_SIZE
from tf_memsafe.rewrite.driver import apply
from tf_memsafe.rewrite.maths import sum_over

F16 = tf.float16


def total(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(x[:, :, :, None] * y[:, None, :, :], 2)


def test_a_batch_of_products() -> None:
    result = rewritten(CONTRACTION, total, floats(2, 9, 7), floats(2, 7, 5))
    assert shown(result.graph) == [
        "graph(%1: f32[2,9,7], %2: f32[2,7,5]):",
        "%3 = dot_general(%1, %2) batch [0]x[0] contract [2]x[1] : f32[2,9,5]",
        "return %3",
    ]
    (fired,) = result.rewrites
    assert (fired.bytes_before, fired.bytes_after) == (4 * 2 * 9 * 7 * 5, 4 * 2 * 9 * 5)


def test_scales_weights_and_several_factors() -> None:
    def function(x: tf.Tensor, y: tf.Tensor, w: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        left, right = x[:, None, :] / w, -y[None, :, :] * 0.5
        return tf.reduce_sum(left * right * z[:, None, None], -1)

    result = rewritten(CONTRACTION, function, floats(9, 7), floats(5, 7), floats(7), floats(9))
    names = [node.name for node in topological(result.graph.outputs)]
    assert names.count("dot_general") == 1
    assert max(node.tensor.size for node in topological(result.graph.outputs)) == 63


def test_a_sum_over_two_axes_of_three_factors_takes_two_products() -> None:
    def function(x: tf.Tensor, y: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(x[:, :, None, None] * y[None, :, :, None] * z[None, None], [1, 2])

    result = rewritten(CONTRACTION, function, floats(9, 7), floats(7, 5), floats(5, 4))
    names = [node.name for node in topological(result.graph.outputs)]
    assert names.count("dot_general") == 2


def test_what_nothing_shares_is_summed_first() -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(x[:, :, None] * y, 1)

    assert shown(rewritten(CONTRACTION, function, floats(9, 7), floats(5)).graph) == [
        "graph(%1: f32[9,7], %2: f32[5]):",
        "%3 = constant() 0.0 : f32[]",
        "%4 = reduce(%1, %3) dimensions=[1] : f32[9]",
        "%8 = broadcast_in_dim(%4) broadcast_dimensions=[0] : f32[9,5]",
        "%9 = broadcast_in_dim(%2) broadcast_dimensions=[1] : f32[9,5]",
        "%10 = multiply(%8, %9) : f32[9,5]",
        "return %10",
    ]


# --- refusals -----------------------------------------------------------------------------------


def test_a_small_inner_size_is_refused() -> None:
    inner = SMALLEST_INNER_SIZE - 1
    result = rewritten(CONTRACTION, total, floats(2, 9, inner), floats(2, inner, 5))
    assert "an inner size of 3" in reasons(result)["sum_of_broadcast_product"]
    inner += 1
    assert rewritten(CONTRACTION, total, floats(2, 9, inner), floats(2, inner, 5)).rewrites


def test_half_precision_is_refused() -> None:
    x, y = build.region_parameters([TensorType("f16", (9, 7)), TensorType("f16", (5, 7))])
    shape = (9, 5, 7)
    product = build.multiply(build.broadcast(x, shape, (0, 2)), build.broadcast(y, shape, (1, 2)))
    result = apply(CONTRACTION, Graph((x, y), (sum_over(product, (2,)),)))
    assert "products of f16" in reasons(result)["sum_of_broadcast_product"]


@pytest.mark.parametrize(("dtype", "name"), [(tf.float16, "f16"), (tf.bfloat16, "bf16")])
def test_products_that_were_rounded_to_half_precision_are_refused(
    dtype: tf.DType, name: str
) -> None:
    # TensorFlow adds them up in f32: a conversion stands between the product and the sum.
    specs = tf.TensorSpec((2, 9, 7), dtype), tf.TensorSpec((2, 7, 5), dtype)
    result = rewritten(CONTRACTION, total, *specs)
    assert not result.rewrites
    assert f"products of {name}" in reasons(result)["sum_of_broadcast_product"]


def test_conversions_of_the_factors_are_seen_through() -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return total(tf.cast(x, tf.float32), tf.cast(y, tf.float32))

    specs = tf.TensorSpec((2, 9, 7), F16), tf.TensorSpec((2, 7, 5), F16)
    assert rewritten(CONTRACTION, function, *specs).rewrites


def test_many_factors_are_refused() -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        product = x[:, None] * y[None]
        for _ in range(5):
            product *= product
        return tf.reduce_sum(product, 2)

    result = rewritten(CONTRACTION, function, floats(9, 7), floats(5, 7))
    assert "too many factors" in reasons(result)["sum_of_broadcast_product"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: tf.reduce_max(x[:, None] * y[None], 2),
        lambda x, y: tf.reduce_sum(x[:, None] + y[None], 2),
        lambda x, y: tf.reduce_sum(x[:, None] * tf.exp(x[:, None] * y[None]), 2),
        lambda x, y: tf.reduce_sum(x * y[0], 1),
        lambda x, y: tf.reduce_sum(tf.tanh(x) * x, 1) + y[0, 0],
        lambda x, y: tf.reduce_sum(x[:, None] / (1 + x[:, None] * y), 2),
    ],
)
def test_other_reductions_are_left_alone(
    function: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
) -> None:
    assert not rewritten(CONTRACTION, function, floats(9, 7), floats(5, 7)).rewrites


# --- numbers ------------------------------------------------------------------------------------


def random_product(random: Random) -> Graph:
    """A sum over some of 4 axes of a product of 2 to 5 factors, some of them divisors."""
    shape = tuple(random.choice([1, 4, 5, 7]) for _ in range(4))
    parameters, product = [], None
    for _ in range(random.randint(2, 5)):
        axes = tuple(random.sample(range(4), random.randint(0, 3)))
        type_ = TensorType("f64", tuple(shape[axis] for axis in axes))
        (parameter,) = build.region_parameters([type_])
        parameters.append(parameter)
        product = times(product, build.broadcast(parameter, shape, axes), random)
    assert product is not None
    summed = random.sample(range(4), random.randint(1, 4))
    return Graph(tuple(parameters), (sum_over(product, summed),))


def times(product: Node | None, factor: Node, random: Random) -> Node:
    if product is None:
        return factor
    if random.random() < 0.3:
        product = build.emit("negate", (product,))
    return build.emit(random.choice(["multiply", "multiply", "divide"]), (product, factor))


@pytest.mark.parametrize("seed", range(10))
def test_random_products(seed: int) -> None:
    random, fired = Random(seed), 0
    generator = np.random.default_rng(seed)
    for _ in range(100):
        graph = random_product(random)
        result = apply(CONTRACTION, apply(CANONICAL, graph).graph)
        fired += bool(result.rewrites)
        arguments = [generator.uniform(0.5, 2, size=type_.shape) for type_ in graph.types]
        (expected,), (got,) = evaluate(graph, arguments), evaluate(result.graph, arguments)
        # Positive terms, at most 7**4 of them: f64 rounding of each is 1e-16.
        np.testing.assert_allclose(got, expected, rtol=1e-13)
    assert fired > 10


TOLERANCES = {"float32": 1e-6, "float64": 1e-15, "complex64": 1e-6, "int32": 0.0}
"""Rounding of sums of 7 terms."""


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_numbers(dtype: str) -> None:
    generator = np.random.default_rng(0)
    arguments = [tf.cast(3 * generator.normal(size=s), dtype) for s in ((2, 9, 7), (2, 7, 5))]
    assert_close(CONTRACTION, TOLERANCES[dtype], total, *arguments)


def test_nan_and_inf_go_where_they_went() -> None:
    generator = np.random.default_rng(0)
    x, y = (generator.normal(size=shape).astype(np.float32) for shape in ((2, 9, 7), (2, 7, 5)))
    y[1, 2, 3] = 0
    assert_close(CONTRACTION, 1e-6, total, special(x, [np.nan, np.inf]), y)
