"""Random chains of products, solves and scalar factors, and all orders in which to multiply one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf, prod
from random import Random
from typing import Any, NamedTuple

import numpy as np

from tests.hlo.ops.makers import dot
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.op import Symbol
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.chain_plan import ChainSizes, Order, Span, parts_of, span_of

BATCH = {100: 2, 101: 3}
"""The batch axes that a chain may have, and their sizes."""


def matrices(sizes: Sequence[int], **more: Any) -> ChainSizes:
    """A chain of sizes[0] x sizes[1], sizes[1] x sizes[2] and so on."""
    links = [frozenset((link, link + 1)) for link in range(len(sizes) - 1)]
    return ChainSizes(links, dict(enumerate(sizes)), frozenset((0, len(sizes) - 1)), **more)


def random_sizes(random: Random, count: int) -> ChainSizes:
    """Links of which some are vectors, some inverses, and some have batch axes."""
    sizes = [random.choice([1, 2, 3, 5, 8, 13]) for _ in range(count + 1)]
    batch = random.choice([(), (100,), (100, 101)])
    share, inverses = 0.7, frozenset[int]()
    if random.random() < 0.5:  # inverses have the batch axes of what they are solved for
        dense = random.randrange(count)
        inverses = frozenset(i for i in range(count) if i != dense and random.random() < 0.4)
        share = 1.0
    for link in sorted(inverses):
        sizes[link + 1] = sizes[link]
    links = [
        frozenset({link, link + 1, *(axis for axis in batch if random.random() < share)})
        for link in range(count)
    ]
    axes = frozenset[int]().union(*links)
    result = axes - frozenset(range(1, count))
    return ChainSizes(links, dict(enumerate(sizes)) | BATCH, result, inverses)


# --- orders -------------------------------------------------------------------------------------


def all_orders(first: int, last: int) -> Iterator[Order]:
    if first == last:
        yield first
    for middle in range(first, last):
        for left in all_orders(first, middle):
            for right in all_orders(middle + 1, last):
                yield left, right


def random_order(random: Random, chain: ChainSizes, first: int, last: int) -> Order:
    """An order that multiplies no inverses with each other."""
    if first == last:
        return first
    middle = random.choice(
        [
            middle
            for middle in range(first, last)
            if _is_value(chain, first, middle) + _is_value(chain, middle + 1, last) > 0
            and (_is_value(chain, first, middle) or middle == first)
            and (_is_value(chain, middle + 1, last) or middle + 1 == last)
        ]
    )
    left = random_order(random, chain, first, middle)
    return left, random_order(random, chain, middle + 1, last)


def _is_value(chain: ChainSizes, first: int, last: int) -> bool:
    return not chain.inverses.issuperset(range(first, last + 1))


def open_axes(chain: ChainSizes, span: Span) -> frozenset[int]:
    """The axes of the product of a part: those that other links have too, or the result."""
    first, last = span
    inside = frozenset[int]().union(*chain.links[first : last + 1])
    return inside & chain.result.union(*chain.links[:first], *chain.links[last + 1 :])


def elements(chain: ChainSizes, axes: frozenset[int]) -> int:
    return prod(chain.sizes[axis] for axis in axes)


def flops_of(order: Order, chain: ChainSizes) -> float:
    """What the products and solves of an order take."""
    return sum(_flops_of_product(part, chain) for part in parts_of(order, chain.there))


def smallest(order: Order, chain: ChainSizes) -> int:
    """The elements of the smallest of what an order multiplies, and of what it makes."""
    parts = [part for part in parts_of(order, chain.there) if part not in chain.inverses]
    return min(elements(chain, open_axes(chain, span_of(part))) for part in parts)


def _flops_of_product(order: Order, chain: ChainSizes) -> float:
    if isinstance(order, int) or span_of(order) in chain.there:
        return 0
    left, right = (open_axes(chain, span_of(part)) for part in order)
    each = (2, 1, inf)[sum(part in chain.inverses for part in order)]
    return each * elements(chain, left | right)


# --- graphs -------------------------------------------------------------------------------------


class Value(NamedTuple):
    """A node, and the number of each of its axes."""

    node: Node
    axes: tuple[int, ...]


class RandomChain:
    """A graph that multiplies random links in a random order, and what is known of it.

    order: that order. sizes: of its links, and of what it multiplies by each scalar factor.
    arguments: for its parameters. shared: how many of the parts are results as well, of 1.
    """

    def __init__(self, random: Random, count: int, shared: float = 0) -> None:
        self._random, self._shared = random, shared
        self._results: list[Node] = []
        self._generator = np.random.default_rng(random.randrange(2**32))
        self._parameters: list[Node] = []
        self._scaled: list[int] = []
        self.arguments: list[np.ndarray] = []
        sizes = random_sizes(random, count)
        self._links = sizes
        self.order = random_order(random, sizes, 0, count - 1)
        value = self._value(self.order)
        self.graph = Graph(tuple(self._parameters), (*self._results, value.node))
        self.sizes = replace(sizes, scales=self._scaled)

    def _parameter(self, values: np.ndarray) -> Node:
        self.arguments.append(values)
        (parameter,) = build.region_parameters([TensorType("f64", values.shape)])
        self._parameters.append(parameter)
        return parameter

    def _normal(self, axes: Sequence[int]) -> np.ndarray:
        return self._generator.normal(size=[self._links.sizes[axis] for axis in axes])

    def _value(self, order: Order) -> Value:
        if isinstance(order, int):
            axes = sorted(self._links.links[order], key=lambda axis: (axis not in BATCH, axis))
            if self._random.random() < 0.3:
                axes[-2:] = axes[:-3:-1]
            value = Value(self._parameter(self._normal(axes)), tuple(axes))
        elif order[0] in self._links.inverses:
            value = self._solve(order[0], self._value(order[1]))
        elif order[1] in self._links.inverses:
            value = self._solve(order[1], self._value(order[0]))
        else:
            value = self._product(self._value(order[0]), self._value(order[1]))
        value = self._viewed(self._scale(self._also_a_result(value)))
        return self._also_a_result(value)

    def _also_a_result(self, value: Value) -> Value:
        if self._random.random() < self._shared:
            self._results.append(value.node)
        return value

    def _product(self, left: Value, right: Value) -> Value:
        if self._random.random() < 0.3:
            left, right = right, left
        shared = [axis for axis in left.axes if axis in right.axes]
        batch = [axis for axis in shared if axis in BATCH]
        inner = [axis for axis in shared if axis not in BATCH]
        places = [
            tuple(map(value.axes.index, axes)) for axes in (batch, inner) for value in (left, right)
        ]
        free = [axis for value in (left, right) for axis in value.axes if axis not in shared]
        node = build.emit("dot_general", (left.node, right.node), dot(*places))
        return Value(node, (*batch, *free))

    def _solve(self, link: int, right: Value) -> Value:
        """A solve on the side on which the two matrices meet, in any of the ways to write it."""
        batch, size = right.axes[:-2], self._links.sizes[link]
        inner, kept = (link, link + 1) if link in right.axes else (link + 1, link)
        triangle = self._normal((*batch, link, link)) / 4 / size + 2 * np.eye(size)
        left_side = right.axes[-2] == inner
        attributes = {
            "left_side": left_side,
            "lower": self._random.random() < 0.5,
            "unit_diagonal": self._random.random() < 0.3,
            "transpose_a": Symbol("transpose", self._random.choice(HOW)),
        }
        operands = self._parameter(triangle), right.node
        node = build.emit("triangular_solve", operands, attributes)
        return Value(node, tuple(kept if axis == inner else axis for axis in right.axes))

    def _scale(self, value: Value) -> Value:
        op = self._random.choice(["multiply", "divide", "negate", *[None] * 9])
        if op is None:
            return value
        self._scaled.append(value.node.tensor.size)
        scalar = (
            self._parameter(self._generator.uniform(0.5, 2, size=())) if op != "negate" else None
        )
        filled = () if scalar is None else (build.broadcast(scalar, value.node.shape),)
        return Value(build.emit(op, (value.node, *filled)), value.axes)

    def _viewed(self, value: Value) -> Value:
        """The value, or a vector with its axes exchanged by a reshape."""
        *batch, rows, columns = value.axes
        if 1 not in value.node.shape[-2:] or self._random.random() < 0.7:
            return value
        shape = (*value.node.shape[:-2], *value.node.shape[:-3:-1])
        return Value(build.reshape(value.node, shape), (*batch, columns, rows))


HOW = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
