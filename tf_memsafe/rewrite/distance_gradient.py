"""distance, of gradients and periodic kernels: sums of differences, their sines and cosines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from math import prod

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.rewrite.distance_pattern import Pattern, in_pairs, read_pattern, times_others
from tf_memsafe.rewrite.distance_size import dtype_refusal, product_refusal
from tf_memsafe.rewrite.maths import filled
from tf_memsafe.rewrite.product import Factor, sum_of, write_sum
from tf_memsafe.rewrite.rule import Outcome, Skip, rule

MOST_DIFFERENCES = 2
"""In one product: of more, too many terms cancel."""

MOST_FACTORS = 4
"""Differences, sines and cosines in one product: each doubles the number of terms."""


@rule("reduce", "dot_general")
def sum_of_differences(node: Node) -> Outcome:
    """sum(g[:, :, None] * (x[:, None] - y[None]), 1) => x * sum(g, 1) - g @ y

    Also with two differences, as gradients to lengthscales have them, with sines and cosines of
    differences, as periodic kernels have them, with other factors, and over any of the axes. Points
    are first shifted by the mean of some of y. Exact but for rounding, in which large parts may
    cancel; a sum of squares stays at or above 0. An infinite x may give inf where infinities of
    both signs, added up, gave NaN.
    """
    pattern = read_pattern(node)
    if pattern is None or pattern.is_distance:
        return None
    if skip := _refusal(node, pattern):
        return skip
    if pattern.is_square:
        return _sum_of_squares(pattern)
    total = _sum(pattern, pattern.others)
    return Skip("the other factors vary along all axes") if total is None else total


def _sum_of_squares(pattern: Pattern) -> Outcome:
    """The sum of what cannot be negative, times the factors that may be."""
    own, others = pattern.own_factors()
    scales, left = in_pairs(own)
    if any({*factor.axes} & {*pattern.summed} for factor in (*left, *others)):
        return Skip("the weights of the coordinates are not squares of scales")
    total = _sum(pattern, [*scales, *scales])
    if total is None:
        return None
    clamped = build.emit("maximum", (total, filled(0, total, total.shape)))
    return times_others(clamped, [*left, *others], pattern.summed)


def _refusal(node: Node, pattern: Pattern) -> Skip | None:
    """Why a pattern is left as it is."""
    _, others = pattern.own_factors()
    weighed = {axis for factor in others for axis in factor.axes}
    if pattern.shared <= weighed:
        return Skip("the other factors vary along all axes")
    counts = Counter(one.name for one in pattern.separables)
    if counts["subtract"] > MOST_DIFFERENCES:
        return Skip(f"a product of more than {MOST_DIFFERENCES} differences")
    if counts.total() > MOST_FACTORS:
        return Skip(f"a product of more than {MOST_FACTORS} differences, sines and cosines")
    if not pattern.is_over_coordinates:
        return dtype_refusal(node.dtype)
    alone = counts.total() == counts["subtract"] == 1
    dimension = prod(pattern.shape[axis] for axis in pattern.shared - weighed)
    return None if alone else product_refusal(node.dtype, dimension)


def _sum(pattern: Pattern, others: Sequence[Factor]) -> Node | None:
    """The sum, as one of products of something of x and of y; None if one of those is as large."""
    parts = []
    for factors, count in _expanded(pattern):
        part = sum_of([*others, *factors], pattern.shape, pattern.summed)
        if part is None or part.largest >= prod(pattern.shape):
            return None
        parts.append((count, part))
    first, *rest = sorted(parts, key=lambda part: part[0] < 0)
    total = _times(first[0], write_sum(first[1]))
    for count, part in rest:
        combine = build.add if count > 0 else build.subtract
        total = combine(total, _times(abs(count), write_sum(part)))
    return total


def _expanded(pattern: Pattern) -> list[tuple[list[Factor], int]]:
    """The products of something of x and of y that are added up, and how often each is."""
    numbers: dict[Factor, int] = {}
    counts: Counter[tuple[int, ...]] = Counter()
    for terms in product(*(one.terms() for one in pattern.separables)):
        factors = [factor for term in terms for factor in term.factors]
        key = sorted(numbers.setdefault(factor, len(numbers)) for factor in factors)
        counts[tuple(key)] += prod(term.sign for term in terms)
    known = list(numbers)
    return [([known[i] for i in key], count) for key, count in counts.items() if count]


def _times(count: int, node: Node) -> Node:
    return node if count == 1 else build.multiply(filled(count, node, node.shape), node)
