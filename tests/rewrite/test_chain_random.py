"""A thousand random chains: the least flops there are, and the same numbers."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tests.rewrite.numpy_products import evaluate, flops
from tests.rewrite.random_chains import RandomChain, all_orders, flops_of, smallest
from tf_memsafe.hlo.node import Graph
from tf_memsafe.rewrite.canonical import CANONICAL
from tf_memsafe.rewrite.chain import CHAIN
from tf_memsafe.rewrite.chain_plan import LEAST_SHRINKING
from tf_memsafe.rewrite.driver import apply

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))]
"""A hundred chains of each."""


@pytest.mark.parametrize("seed", SEEDS)
def test_random_chains_take_the_least_flops_and_give_the_same(seed: int) -> None:
    random = Random(seed)
    for _ in range(100):
        count = random.randint(3, 12)
        chain = RandomChain(random, count)
        result = apply(CHAIN, apply(CANONICAL, chain.graph).graph).graph
        assert flops(result) <= flops(chain.graph)
        if count <= 8:
            assert flops(result) in least_flops(chain)
        assert_same_numbers(chain, result)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_chains_of_which_parts_are_results(seed: int) -> None:
    random = Random(seed)
    for _ in range(100):
        chain = RandomChain(random, random.randint(3, 12), shared=0.2)
        result = apply(CHAIN, apply(CANONICAL, chain.graph).graph).graph
        assert flops(result) <= flops(chain.graph)
        assert_same_numbers(chain, result)


def assert_same_numbers(chain: RandomChain, result: Graph) -> None:
    pairs = zip(*(evaluate(g, chain.arguments) for g in (result, chain.graph)), strict=True)
    for got, expected in pairs:
        # f64 rounds at 1e-16, and there are at most 13 terms in each of 12 sums.
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-12 * np.abs(expected).max())


def least_flops(chain: RandomChain) -> set[float]:
    """Of the products, and of the scalar factors on the smallest of what is multiplied.

    Where the user's order is as good as any, the factors may stay for not being much larger.
    """
    orders = all_orders(0, len(chain.sizes.links) - 1)
    prices = {order: flops_of(order, chain.sizes) for order in orders}
    least, scales = min(prices.values()), chain.sizes.scales
    found = {
        price + len(scales) * smallest(order, chain.sizes)
        for order, price in prices.items()
        if price == least
    }
    moved = len(scales) * smallest(chain.order, chain.sizes)
    if prices[chain.order] == least and LEAST_SHRINKING * moved > sum(scales):
        found.add(least + sum(scales))
    return found
