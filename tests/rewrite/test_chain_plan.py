"""Orders of chains, planned on sizes alone and held to all orders there are."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from random import Random

import pytest

from tests.rewrite.random_chains import (
    all_orders,
    flops_of,
    matrices,
    open_axes,
    random_order,
    random_sizes,
)
from tf_memsafe.rewrite.chain_plan import (
    ChainSizes,
    Order,
    Price,
    parts_of,
    plan_chain,
    price_of,
    span_of,
)


def with_parts_there(random: Random, chain: ChainSizes) -> ChainSizes:
    """Some parts of an order are computed anyway."""
    order = random_order(random, chain, 0, len(chain.links) - 1)
    spans = [span_of(part) for part in parts_of(order) if not isinstance(part, int)]
    return replace(chain, there={span: () for span in spans[1:] if random.random() < 0.2})


@pytest.mark.parametrize("seed", range(10))
def test_the_best_of_all_orders_is_found(seed: int) -> None:
    random = Random(seed)
    for _ in range(50):
        count = random.randint(2, 7)
        chain = with_parts_there(random, random_sizes(random, count))
        plan = plan_chain(chain, random_order(random, chain, 0, count - 1))
        orders = list(all_orders(0, count - 1))
        assert plan.price == min(price_of(order, chain, chain.there) for order in orders)
        assert plan.price.flops == min(flops_of(order, chain) for order in orders)
        assert plan.price == price_of(plan.order, chain, chain.there)


@pytest.mark.parametrize("seed", range(3))
def test_parts_are_as_large_as_the_axes_that_are_left(seed: int) -> None:
    random = Random(seed)
    for _ in range(50):
        chain = random_sizes(random, 6)
        for part in parts_of(random_order(random, chain, 0, 5)):
            axes = open_axes(chain, span_of(part))
            assert chain.outer(span_of(part)) == prod(chain.sizes[axis] for axis in axes)


def left_to_right(count: int) -> Order:
    order: Order = 0
    for link in range(1, count):
        order = (order, link)
    return order


def test_a_long_chain_is_planned() -> None:
    random = Random(0)
    chain = matrices([random.randint(1, 1000) for _ in range(73)])
    plan = plan_chain(chain, left_to_right(72))
    assert plan.price == price_of(plan.order, chain, ())
    assert plan.price < price_of(left_to_right(72), chain, ())
    assert span_of(plan.order) == (0, 71)


def test_ties_keep_the_users_order() -> None:
    chain = matrices([4] * 6)
    for order in all_orders(0, 4):
        assert plan_chain(chain, order).order == order
    # Only the last product can be done better: the first four stay as they are.
    chain = matrices([4, 4, 4, 4, 4, 9, 1])
    for order in all_orders(0, 3):
        assert plan_chain(replace(chain, there={(0, 3): ()}), ((order, 4), 5)).order == (
            order,
            (4, 5),
        )


def test_of_equal_flops_the_smaller_intermediate_is_taken() -> None:
    chain = matrices([3, 6, 3, 2])
    assert price_of((0, (1, 2)), chain, ()) == Price(144, 12)
    plan = plan_chain(chain, (0, (1, 2)))
    assert (plan.order, plan.price) == (((0, 1), 2), Price(144, 9))


def test_a_solve_takes_half_of_a_product() -> None:
    chain = replace(matrices([9, 9, 7]), inverses=frozenset({0}))
    assert price_of((0, 1), chain, ()) == Price(9 * 9 * 7, 63)
    assert price_of((0, 1), matrices([9, 9, 7]), ()) == Price(2 * 9 * 9 * 7, 63)


def test_a_batch_counts_for_what_has_it_and_for_what_is_made_of_it() -> None:
    links = [frozenset({9, 0, 1}), frozenset({1, 2}), frozenset({2, 3})]
    chain = ChainSizes(links, {0: 4, 1: 4, 2: 4, 3: 4, 9: 10}, frozenset({9, 0, 3}))
    assert price_of((1, 2), chain, ()).flops == 128
    assert price_of((0, (1, 2)), chain, ()).flops == 128 + 1280
    assert plan_chain(chain, ((0, 1), 2)).order == (0, (1, 2))


def test_scalar_factors_go_to_the_smallest_part() -> None:
    chain = replace(matrices([9, 7, 5, 1]), scales=[45])
    plan = plan_chain(chain, ((0, 1), 2))
    assert (plan.order, plan.scales, plan.scaled) == ((0, (1, 2)), [0], (2, 2))
    assert plan.price == Price(2 * 35 + 2 * 63 + 5, 9)


def test_scalar_factors_stay_where_no_part_is_smaller() -> None:
    assert plan_chain(replace(matrices([2, 9, 2]), scales=[4]), (0, 1)).scaled is None
    assert plan_chain(replace(matrices([2, 9, 2]), scales=[18]), (0, 1)).scaled == (0, 1)
    # Less than half as large has to be what a factor moves to for its own sake.
    assert plan_chain(replace(matrices([9, 5, 9]), scales=[81]), (0, 1)).scaled is None
    assert plan_chain(replace(matrices([9, 4, 9]), scales=[81]), (0, 1)).scaled == (0, 0)
    # Of equals the product: it can be scaled where it is.
    assert plan_chain(replace(matrices([4, 4, 4, 9]), scales=[36]), ((0, 1), 2)).scaled == (0, 1)


def test_scalar_factors_in_what_is_there_are_there() -> None:
    chain = replace(matrices([9, 7, 8, 1]), scales=[72], there={(0, 1): [0]})
    plan = plan_chain(chain, ((0, 1), 2))
    assert (plan.price, plan.scaled) == (Price(2 * 72, 9), None)
    # Where the factors are cheaper than what is there, they have to be scaled again.
    chain = replace(matrices([90, 2, 80, 1]), scales=[7200], there={(0, 1): [0]})
    plan = plan_chain(chain, ((0, 1), 2))
    assert (plan.order, plan.scales, plan.scaled) == ((0, (1, 2)), [0], (1, 2))


def test_half_of_a_mirrored_chain_is_computed_once() -> None:
    chain = replace(matrices([3, 9, 9, 9, 3]), inverses=frozenset({1, 2}))
    users = (0, (1, (2, 3)))
    assert plan_chain(chain, users).order == users
    plan = plan_chain(replace(chain, mirrored=True), users)
    assert (plan.order, plan.mirrored) == (((0, 1), (2, 3)), True)
    assert plan.price == Price(9 * 9 * 3 + 2 * 3 * 9 * 3, 27)
