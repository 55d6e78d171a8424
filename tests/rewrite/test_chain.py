"""Chains of products in the cheapest order, held to all orders there are."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.ops.makers import dot
from tests.rewrite.numpy_products import evaluate, flops
from tests.rewrite.rewriting import assert_close, reasons, rewritten, rules, shown, special
from tests.split.planning import floats
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.canonical import CANONICAL
from tf_memsafe.rewrite.chain import CHAIN, Order, best_order, price_of, span_of
from tf_memsafe.rewrite.driver import apply
from tf_memsafe.rewrite.maths import transpose

# --- planning -----------------------------------------------------------------------------------


def all_orders(first: int, last: int) -> Iterator[Order]:
    if first == last:
        yield first
    for middle in range(first, last):
        for left in all_orders(first, middle):
            for right in all_orders(middle + 1, last):
                yield left, right


def spans(order: Order) -> Iterator[tuple[int, int]]:
    if not isinstance(order, int):
        yield span_of(order)
        yield from spans(order[0])
        yield from spans(order[1])


@pytest.mark.parametrize("seed", range(10))
def test_the_best_of_all_orders_is_found(seed: int) -> None:
    random = Random(seed)
    for _ in range(100):
        count = random.randint(2, 8)
        sizes = [random.choice([1, 2, 3, 5, 8, 100]) for _ in range(count + 1)]
        orders = list(all_orders(0, count - 1))
        there = frozenset(
            span
            for span in spans(random.choice(orders))
            if span != (0, count - 1) and random.random() < 0.2
        )
        price, order = best_order(sizes, there)
        assert price == min(price_of(each, sizes, there) for each in orders)
        assert price == price_of(order, sizes, there)


def test_a_long_chain_is_planned() -> None:
    random = Random(0)
    sizes = [random.randint(1, 1000) for _ in range(73)]
    price, order = best_order(sizes)
    assert price == price_of(order, sizes)
    assert span_of(order) == (0, 71)


# --- graphs -------------------------------------------------------------------------------------


def chain(random: Random, count: int) -> tuple[Graph, int]:
    """A random product of matrices, some of them transposed or vectors, with or without a batch.

    Returns the least flops as well, 0 where there are too many factors to try all orders.
    """
    batch = random.choice([(), (), (3,), (2, 3)])
    sizes = [random.choice([2, 3, 5, 8, 13]) for _ in range(count + 1)]
    for end in (0, -1):
        sizes[end] = random.choice([1, sizes[end]])
    turned = [random.random() < 0.3 for _ in range(count)]
    shapes = [
        (*batch, *((columns, rows) if turn else (rows, columns)))
        for rows, columns, turn in zip(sizes, sizes[1:], turned, strict=False)
    ]
    parameters = build.region_parameters([TensorType("f64", shape) for shape in shapes])
    factors = [
        turn_last(parameter) if turn else parameter
        for parameter, turn in zip(parameters, turned, strict=True)
    ]
    order = random_order(random, 0, count - 1)
    least = 0
    if count <= 8:
        least = min(price_of(each, sizes).products for each in all_orders(0, count - 1))
    return Graph(parameters, (product(order, factors, random),)), 2 * least * int(np.prod(batch))


def turn_last(node: Node) -> Node:
    rank = node.tensor.rank
    return transpose(node, (*range(rank - 2), rank - 1, rank - 2))


def random_order(random: Random, first: int, last: int) -> Order:
    if first == last:
        return first
    middle = random.randrange(first, last)
    return random_order(random, first, middle), random_order(random, middle + 1, last)


def product(order: Order, factors: list[Node], random: Random) -> Node:
    if isinstance(order, int):
        return factors[order]
    left, right = (product(part, factors, random) for part in order)
    rank = left.tensor.rank
    batch = tuple(range(rank - 2))
    if random.random() < 0.3:  # B^T A^T, transposed
        swapped = dot(batch, batch, (rank - 2,), (rank - 1,))
        return turn_last(build.emit("dot_general", (right, left), swapped))
    straight = dot(batch, batch, (rank - 1,), (rank - 2,))
    return build.emit("dot_general", (left, right), straight)


@pytest.mark.parametrize("seed", range(10))
def test_random_chains_take_the_least_flops_and_give_the_same(seed: int) -> None:
    random = Random(seed)
    generator = np.random.default_rng(seed)
    for _ in range(100):
        graph, least = chain(random, random.randint(3, 12))
        result = apply(CHAIN, apply(CANONICAL, graph).graph).graph
        assert flops(result) <= flops(graph)
        assert least in (0, flops(result))
        arguments = [generator.normal(size=type_.shape) for type_ in graph.types]
        (expected,), (got,) = evaluate(graph, arguments), evaluate(result, arguments)
        # f64 rounds at 1e-16, and there are at most 13 terms in each of 12 sums.
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-12 * np.abs(expected).max())


def test_a_matrix_product_times_a_vector() -> None:
    result = rewritten(CHAIN, lambda a, b, v: (a @ b) @ v, floats(9, 7), floats(7, 5), floats(5, 1))
    assert shown(result.graph) == [
        "graph(%1: f32[9,7], %2: f32[7,5], %3: f32[5,1]):",
        "%4 = dot_general(%2, %3) contract [1]x[0] : f32[7,1]",
        "%5 = dot_general(%1, %4) contract [1]x[0] : f32[9,1]",
        "return %5",
    ]
    (fired,) = result.rewrites
    assert (fired.bytes_before, fired.bytes_after) == (180, 36)


def test_a_transposed_product_times_a_vector() -> None:
    def function(a: tf.Tensor, b: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        return tf.linalg.matvec(tf.transpose(a @ b), v)

    result = rewritten(CHAIN, function, floats(9, 7), floats(7, 5), floats(9))
    assert shown(result.graph)[1:-2] == [
        "%4 = reshape(%3) : f32[9,1]",
        "%5 = dot_general(%1, %4) contract [0]x[0] : f32[7,1]",
        "%6 = dot_general(%2, %5) contract [0]x[0] : f32[5,1]",
    ]


def test_matrix_vector_products_in_a_row_and_einsum() -> None:
    def function(a: tf.Tensor, b: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        return tf.einsum("bik,kj->bij", tf.einsum("bij,jk->bik", x, a), b)

    wide = rewritten(CHAIN, function, floats(2, 3), floats(3, 2), floats(4, 9, 2))
    assert "%4 = dot_general(%1, %2) contract [1]x[0] : f32[2,2]" in shown(wide.graph)
    best = rewritten(CHAIN, function, floats(2, 3), floats(3, 50), floats(1, 2, 2))
    assert not best.rewrites


def test_a_product_that_others_use_is_there_already() -> None:
    def function(a: tf.Tensor, b: tf.Tensor, v: tf.Tensor) -> list[tf.Tensor]:
        shared = a @ b
        return [tf.tanh(shared), shared @ v]

    specs = floats(9, 7), floats(7, 5), floats(5, 1)
    assert not rewritten(CHAIN, function, *specs).rewrites
    reason = reasons(rewritten(CHAIN, function, *specs))["reassociate"]
    assert reason == "no order of the 3 factors takes less"


def test_a_result_is_there_too_unless_its_factors_are_cheaper() -> None:
    def function(a: tf.Tensor, b: tf.Tensor, v: tf.Tensor) -> list[tf.Tensor]:
        shared = a @ b
        return [shared, shared @ v]

    assert rules(rewritten(CHAIN, function, floats(90, 2), floats(2, 80), floats(80, 1)))
    assert not rules(rewritten(CHAIN, function, floats(9, 7), floats(7, 8), floats(8, 1)))


def test_a_square_of_a_product_is_one_product_twice() -> None:
    def function(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return (a @ b) @ (a @ b)

    assert not rewritten(CHAIN, function, floats(7, 6), floats(6, 7)).rewrites


def test_ties_keep_the_users_order() -> None:
    specs = (floats(4, 4),) * 4
    for function in (
        lambda a, b, c, d: ((a @ b) @ c) @ d,
        lambda a, b, c, d: a @ (b @ (c @ d)),
        lambda a, b, c, d: (a @ b) @ (c @ d),
    ):
        assert not rewritten(CHAIN, function, *specs).rewrites


def test_sums_of_products_are_left_alone() -> None:
    def function(a: tf.Tensor, b: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        return (a @ b + a) @ v

    result = rewritten(CHAIN, function, floats(9, 9), floats(9, 9), floats(9, 1))
    assert not result.rewrites
    assert not result.refusals


def test_half_precision_is_refused() -> None:
    half = [tf.TensorSpec(shape, tf.float16) for shape in ([9, 7], [7, 5], [5, 1])]
    result = rewritten(CHAIN, lambda a, b, v: (a @ b) @ v, *half)
    assert "f16 may overflow" in reasons(result)["reassociate"]


def test_very_long_chains_are_refused_and_do_not_fail() -> None:
    x = build.region_parameters([TensorType("f32", (2, 2))])[0]
    y = x
    for _ in range(3000):
        y = build.emit("dot_general", (y, x), dot((), (), (1,), (0,)))
    assert "more than 200" in reasons(apply(CHAIN, Graph((x,), (y,))))["reassociate"]


TOLERANCES = {"float32": 1e-6, "float64": 1e-15, "bfloat16": 2e-2, "int32": 0.0}
"""A few units of rounding: sums of at most 9 terms, twice."""


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_numbers(dtype: str) -> None:
    generator = np.random.default_rng(0)
    shapes = (3, 9, 7), (3, 5, 7), (3, 5, 2)
    arguments = [tf.cast(generator.normal(size=s) * 3, dtype) for s in shapes]

    def function(a: tf.Tensor, b: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
        return tf.matmul(a, b, transpose_b=True) @ c

    assert_close(CHAIN, TOLERANCES[dtype], function, *arguments)


def test_nan_and_inf_go_where_they_went() -> None:
    generator = np.random.default_rng(0)
    a = special(generator.normal(size=(9, 7)).astype(np.float32), [np.nan, np.inf])
    b, v = generator.random(size=(7, 5), dtype=np.float32), np.ones((5, 1), np.float32)
    assert_close(CHAIN, 1e-6, lambda a, b, v: (a @ b) @ v, a, b, v)
