"""The cheapest order for a chain of products and solves, planned on sizes alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, prod
from typing import NamedTuple

Span = tuple[int, int]
"""The first and the last link of a part of a chain."""

Order = int | tuple["Order", "Order"]
"""How a chain is multiplied: a link's number, or two parts and their product."""


class Price(NamedTuple):
    """Flops, then elements of the largest intermediate: the first counts for more."""

    flops: float
    largest: int


@dataclass(frozen=True)
class ChainSizes:
    """A chain of links, each with axes that have numbers in the whole chain.

    An axis that the result has not is one that two neighbours share, and that is summed over. Any
    other, a batch axis say, may be in any of the links.

    links: the axes of each link.
    sizes: the elements along each axis.
    result: the axes of the result.
    inverses: the links that are inverses of triangles: a product with one is a solve.
    scales: for each scalar factor, the elements of what the user multiplies by it.
    there: the parts whose product is computed anyway, and the scalar factors that are in it.
    mirrored: whether the second half of the links is the first, transposed.
    """

    links: Sequence[frozenset[int]]
    sizes: Mapping[int, int]
    result: frozenset[int]
    inverses: frozenset[int] = frozenset()
    scales: Sequence[int] = ()
    there: Mapping[Span, Collection[int]] = field(default_factory=dict)
    mirrored: bool = False

    @cached_property
    def inner(self) -> list[int]:
        """How many terms are added up where each link meets the next."""
        pairs = zip(self.links, self.links[1:], strict=False)
        return [self._size((left & right) - self.result) for left, right in pairs]

    @cached_property
    def _outer(self) -> list[list[int]]:
        """The elements of the product of each part: by its first link, then by its length."""
        return [list(self._outer_from(first)) for first in range(len(self.links))]

    def _outer_from(self, first: int) -> Iterator[int]:
        edges = [1, *self.inner, 1]
        kept: set[int] = set()
        for last in range(first, len(self.links)):
            kept |= self.links[last] & self.result
            yield edges[first] * self._size(kept) * edges[last + 1]

    def _size(self, axes: Collection[int]) -> int:
        return prod(self.sizes[axis] for axis in axes)

    def outer(self, span: Span) -> int:
        """The elements of the product of one part."""
        return self._outer[span[0]][span[1] - span[0]]


def span_of(order: Order) -> Span:
    """Which links an order multiplies."""
    first = last = order
    while not isinstance(first, int):
        first = first[0]
    while not isinstance(last, int):
        last = last[1]
    return first, last


def parts_of(order: Order, there: Collection[Span] = ()) -> Iterator[Order]:
    """The order and the parts that it is made of, down to links and to what is there."""
    yield order
    if not isinstance(order, int) and span_of(order) not in there:
        yield from parts_of(order[0], there)
        yield from parts_of(order[1], there)


def _split(order: Order) -> int:
    """The last link of the first of an order's two parts."""
    return order if isinstance(order, int) else span_of(order[0])[1]


def price_of(order: Order, chain: ChainSizes, there: Collection[Span]) -> Price:
    """What the products of an order cost: infinitely much if it multiplies two inverses.

    A product of r x k and k x c takes 2 r k c flops, a solve of n x n for m columns n^2 m.
    """
    span = span_of(order)
    if isinstance(order, int) or span in there:
        return Price(0, 0)
    solves = sum(part in chain.inverses for part in order)
    if solves == 2:
        return Price(inf, 0)
    left, right = (price_of(part, chain, there) for part in order)
    outer = chain.outer(span)
    flops = (2 - solves) * outer * chain.inner[_split(order)]
    return Price(left.flops + right.flops + flops, max(left.largest, right.largest, outer))


# --- plans --------------------------------------------------------------------------------------

LEAST_SHRINKING = 2
"""How much smaller what a scalar factor is applied to has to become for the factor alone to move.

A product is scaled where it is, an operand into a buffer of its own.
"""


class Plan(NamedTuple):
    """An order, and where it puts the scalar factors.

    products: what its products cost. scales: the factors that are not in parts that are there.
    sizes: the elements of what each of them is applied to.
    scaled: the part that they are applied to; None where the user has them.
    mirrored: whether the first of the two parts of the order is the second, transposed.
    """

    order: Order
    products: Price
    scales: list[int]
    sizes: list[int]
    scaled: Span | None = None
    mirrored: bool = False

    @property
    def price(self) -> Price:
        flops, largest = self.products
        return Price(flops + sum(self.sizes), max([largest, *self.sizes]))


def plan_chain(chain: ChainSizes, users: Order) -> Plan:
    """The cheapest plan; the user's if none is cheaper."""
    table = _Table(chain, users)
    end = len(chain.links) - 1
    plans = [_users_plan(chain, users)]
    moved, best = _plan(chain, users), _plan(chain, table.order(0, end))
    if LEAST_SHRINKING * sum(moved.sizes) <= sum(plans[0].sizes):
        plans.append(moved)
    if best.products < moved.products:
        plans.append(best)
    if chain.mirrored:
        plans.append(_mirrored_plan(chain, table.order(len(chain.links) // 2, end)))
    return min(plans, key=lambda plan: plan.price)


def _users_plan(chain: ChainSizes, order: Order) -> Plan:
    scales = _scales_left(chain, order)
    sizes = [chain.scales[scale] for scale in scales]
    return Plan(order, price_of(order, chain, chain.there), scales, sizes)


def _plan(chain: ChainSizes, order: Order) -> Plan:
    """A plan with the scalar factors on the smallest of what it multiplies."""
    spans = [span_of(part) for part in parts_of(order, chain.there) if part not in chain.inverses]
    smallest = min(spans, key=lambda span: (chain.outer(span), span[0] - span[1]))
    scales = _scales_left(chain, order)
    sizes = [chain.outer(smallest)] * len(scales)
    return Plan(order, price_of(order, chain, chain.there), scales, sizes, smallest)


def _mirrored_plan(chain: ChainSizes, half: Order) -> Plan:
    """The product of one half and the same, transposed, which is then there."""
    order = _mirror(half, len(chain.links) - 1), half
    whole = span_of(order)
    scales = _scales_left(chain, order)
    products = price_of(order, chain, {*chain.there, span_of(order[0])})
    return Plan(order, products, scales, [chain.outer(whole)] * len(scales), whole, mirrored=True)


def _scales_left(chain: ChainSizes, order: Order) -> list[int]:
    """The scalar factors that are in none of the parts that an order takes as they are there."""
    spans = map(span_of, parts_of(order, chain.there))
    done = {scale for span in spans for scale in chain.there.get(span, ())}
    return [scale for scale in range(len(chain.scales)) if scale not in done]


def _mirror(order: Order, last: int) -> Order:
    if isinstance(order, int):
        return last - order
    return _mirror(order[1], last), _mirror(order[0], last)


# --- products -----------------------------------------------------------------------------------


class _Table:
    """The prices of all parts of a chain, by dynamic programming.

    There is a list for the parts that begin with each link, and one for those that end with it,
    the shortest part first. Of equal splits the user's is kept.
    """

    def __init__(self, chain: ChainSizes, users: Order) -> None:
        self._chain = chain
        self._users = {span_of(part): _split(part) for part in parts_of(users)}
        self._doubled = [2 * terms for terms in chain.inner]
        singles = [inf if link in chain.inverses else 0 for link in range(len(chain.links))]
        self._flops_from: list[list[float]] = [[flops] for flops in singles]
        self._flops_to: list[list[float]] = [[flops] for flops in singles]
        self._largest_from = [[0] for _ in singles]
        self._largest_to = [[0] for _ in singles]
        self._splits: dict[Span, int] = {}
        for last in range(len(singles)):
            for first in reversed(range(last)):
                self._add(first, last)

    def order(self, first: int, last: int) -> Order:
        """The cheapest order of one part."""
        if first == last:
            return first
        middle = self._splits[first, last]
        return self.order(first, middle), self.order(middle + 1, last)

    def _add(self, first: int, last: int) -> None:
        outer = self._chain.outer((first, last))
        flops = self._flops(first, last, outer)
        after = self._cheapest(first, last, flops, outer)
        self._splits[first, last] = first + after
        price = Price(flops[after], max(outer, self._largest(first, last, after)))
        if (first, last) in self._chain.there:
            price = Price(0, 0)
        self._flops_from[first].append(price.flops)
        self._flops_to[last].append(price.flops)
        self._largest_from[first].append(price.largest)
        self._largest_to[last].append(price.largest)

    def _flops(self, first: int, last: int, outer: int) -> list[float]:
        """What the part costs when it is split after its first link, its second, and so on."""
        left, right = self._flops_from[first], self._flops_to[last]
        terms = self._doubled[first:last]
        flops = [a + b + outer * c for a, b, c in zip(left, reversed(right), terms, strict=True)]
        if first in self._chain.inverses:
            flops[0] = right[-1] + outer * self._chain.inner[first]
        if last in self._chain.inverses:
            flops[-1] = left[-1] + outer * self._chain.inner[last - 1]
        return flops

    def _cheapest(self, first: int, last: int, flops: Sequence[float], outer: int) -> int:
        """Where to split: of equal flops where the intermediates are small, or else the user's."""
        least = min(flops)
        if flops.count(least) == 1:
            return flops.index(least)
        users = self._users.get((first, last), last) - first
        ties = [after for after, each in enumerate(flops) if each == least]
        ties.sort(key=lambda after: after != users)
        for after in ties:
            if self._largest(first, last, after) <= outer:
                return after
        return min(ties, key=lambda after: self._largest(first, last, after))

    def _largest(self, first: int, last: int, after: int) -> int:
        return max(self._largest_from[first][after], self._largest_to[last][-1 - after])
