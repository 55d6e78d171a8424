"""Sums over a few values that are computed for all pairs: written out, term by term.

XLA's CPU back end hands a sum to a library (YNNPACK) and stores what is summed for it, or reads it
one by one: for the L1 distances of points in 100 dimensions, 100 times as much as the distances. A
sum that is written out is computed in one pass with what it is made of and with what uses it.
"""

from __future__ import annotations

from functools import reduce

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.rewrite.elements import Elements, is_large_of_small
from tf_memsafe.rewrite.maths import is_sum
from tf_memsafe.rewrite.readers import readers
from tf_memsafe.rewrite.rule import Outcome, Skip, Uses, rule_with_uses

MOST_TERMS = 128
"""That are written out: the time that XLA takes to compile them grows with their number."""


@rule_with_uses("reduce")
def written_sum(node: Node, uses: Uses) -> Outcome:
    """sum(f(x, y), -1) => f(x[0], y[0]) + f(x[1], y[1]) + ..., for x and y that are much smaller

    Not where XLA would compute it again for each of several users. Exact but for rounding, which is
    that of adding one after the other, and for the sign of 0.
    """
    summed = node.operands[0]
    if not is_sum(node) or not is_large_of_small(summed):
        return None
    axis, *more = node["dimensions"]
    if more or summed.shape[axis] < 2:
        return None
    if summed.shape[axis] > MOST_TERMS:
        return Skip(f"{summed.shape[axis]} terms take long to compile")
    if len(readers(node, uses)) > 1:
        return Skip("its terms would be computed again for each of its users")
    places = range(summed.shape[axis])
    terms = (Elements(axis, index, index + 1, dropped=True).of(summed) for index in places)
    return reduce(build.add, terms)
