"""distance: squared Euclidean distances, and their gradients, as matrix products.

The tensor of all differences, [n, m, D], is not needed then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.rewrite.maths import filled, is_sum, repeated_value, sum_over
from tf_memsafe.rewrite.product import (
    Factor,
    Sum,
    read_factor,
    read_factors,
    sum_of,
    times,
    write_sum,
)
from tf_memsafe.rewrite.rule import Optimizer, Outcome, Skip, rule

SMALLEST_DIMENSION = 6
"""Of points whose distances are faster as a matrix product (DESIGN, section 2); for 4 and fewer the
differences are."""


class Difference(NamedTuple):
    """x - y, for two tensors that vary along other axes."""

    node: Node
    x: Factor
    y: Factor

    @property
    def shared(self) -> list[int]:
        """The axes along which both vary."""
        return [axis for axis in self.x.axes if axis in self.y.axes]


def read_difference(node: Node) -> Difference | None:
    """The difference, if it is much larger than what it is made of."""
    if node.name != "subtract":
        return None
    x, y = map(read_factor, node.operands)
    small = 2 * (x.node.tensor.size + y.node.tensor.size) < node.tensor.size
    return Difference(node, x, y) if small and x.axes and y.axes else None


class Pattern(NamedTuple):
    """A sum over some axes of differences, times other factors."""

    shape: tuple[int, ...]
    summed: tuple[int, ...]
    differences: list[Difference]
    others: list[Factor]

    @property
    def is_square(self) -> bool:
        """Whether it is the sum, over the coordinates, of the square of one difference."""
        once = len(self.summed) == 1 and self.summed[0] in self.differences[0].shared
        return once and len(self.differences) == 2 and len(set(self.differences)) == 1


def read_pattern(node: Node) -> Pattern | None:
    """A sum with differences in it, as a reduce, or as a dot_general of rows with themselves."""
    if node.name == "reduce":
        if not is_sum(node):
            return None
        return _pattern(node.operands[0], node["dimensions"], read_factors(node.operands[0]))
    numbers: DotNumbers = node["dot_dimension_numbers"]
    x, y = node.operands
    summed, kept = numbers.lhs_contracting, numbers.lhs_batching
    everything = len(summed) + len(kept) == x.tensor.rank == y.tensor.rank
    in_order = list(kept) == sorted(kept)
    if not everything or not in_order or numbers[::2] != numbers[1::2] or node.dtype != x.dtype:
        return None
    first, second = read_factors(x), read_factors(y)
    return _pattern(x, summed, None if first is None or second is None else first + second)


def _pattern(
    whole: Node, summed: Sequence[int], factors: Sequence[Factor] | None
) -> Pattern | None:
    differences: list[Difference] = []
    others: list[Factor] = []
    for factor in factors or ():
        found = None if factor.divides else read_difference(factor.node)
        if found is None or len(factor.axes) < whole.tensor.rank:
            others.append(factor)
        else:
            differences.append(found)
    return Pattern(whole.shape, tuple(summed), differences, others) if differences else None


# --- distances ----------------------------------------------------------------------------------


@rule("reduce", "dot_general")
def squared_distance(node: Node) -> Outcome:
    """sum((x[:, None] - y[None])**2, -1) => max(|x|**2 + |y|**2 - 2 x @ transpose(y), 0)

    Also with scales: sum(((x - y) / l)**2, -1). Points are first shifted by the mean of y, so that
    a common offset costs no digits. The error is that of rounding |x|**2 + |y|**2 after the shift:
    for points much closer to each other than to the mean it is a larger part of the distance, the
    distance of a point to itself is 0 but for it, and so may distances be that were equal.

    NaN stays where it was, and so does inf but for two points that are infinite in the same
    coordinate: they are inf apart, where inf - inf gave NaN. Where the square of a shifted point
    overflows, and that of the difference did not, the result is NaN or inf.
    """
    pattern = read_pattern(node)
    if pattern is None:
        return _other_distance(node)
    difference, along = pattern.differences[0], pattern.summed[0]
    if not pattern.is_square or along not in difference.shared:
        return None
    if refusal := _refusal(node, pattern.shape[along]):
        return refusal
    scales, others = _in_pairs(f for f in pattern.others if {*f.axes} <= {*difference.shared})
    others += [f for f in pattern.others if not {*f.axes} <= {*difference.shared}]
    if any(along in factor.axes for factor in others):
        return Skip("the weights of the coordinates are not squares of scales")
    return _times_others(_distances(difference, scales, along, pattern.shape), others, along)


def _other_distance(node: Node) -> Skip | None:
    """Why a reduction of differences is no squared distance."""
    x = node.operands[0]
    if node.name != "reduce" or len(node.operands) != 2 or not x.operands:
        return None
    difference = read_difference(x.operands[0])
    if difference is None or not {*node["dimensions"]} <= {*difference.shared}:
        return None
    if x.name == "power":
        exponent = repeated_value(x.operands[1])
        return Skip(f"the exponent is {'no constant' if exponent is None else exponent}, not 2")
    if x.name == "multiply" and x.operands[0] is x.operands[1]:
        return Skip("the squares of the differences are not added up")
    return Skip("the differences are not squared") if x.name == "abs" else None


def _refusal(node: Node, dimension: int) -> Skip | None:
    if node.dtype not in ("f32", "f64"):
        return Skip(f"{node.dtype} has too few digits for it")
    if dimension < SMALLEST_DIMENSION:
        return Skip(f"in {dimension} dimensions the differences are faster")
    return None


def _in_pairs(factors: Iterable[Factor]) -> tuple[list[Factor], list[Factor]]:
    """One of each two equal factors, and those that are left over."""
    counts = Counter(factors)
    pairs = [factor for factor, count in counts.items() for _ in range(count // 2)]
    return pairs, [factor for factor, count in counts.items() if count % 2]


def _distances(
    difference: Difference, scales: Sequence[Factor], along: int, shape: Sequence[int]
) -> Node:
    x, y = shifted(difference)
    for scale in scales:
        x, y = (Factor(times(side, scale), side.axes) for side in (x, y))

    def summed(*factors: Factor) -> Node:
        return write_sum(Sum(tuple(shape), frozenset((along,)), factors))

    # A square keeps an inf or NaN that the product would turn into NaN everywhere.
    x_finite, y_finite = (Factor(_finite(side.node), side.axes) for side in (x, y))
    minus_two = filled(-2, x.node, x.node.shape)
    minus_twice_x = Factor(build.multiply(minus_two, x_finite.node), x.axes)
    squares = build.add(summed(x, x), summed(y, y))
    total = build.add(squares, summed(minus_twice_x, y_finite))
    return build.emit("maximum", (total, filled(0, total, total.shape)))


def _times_others(distances: Node, others: Sequence[Factor], along: int) -> Node:
    """The distances times factors that do not vary along the axis that was summed."""
    everywhere = tuple(range(distances.tensor.rank))
    for factor in others:
        axes = tuple(axis - (axis > along) for axis in factor.axes)
        moved = Factor(factor.node, axes, factor.divides)
        distances = times(Factor(distances, everywhere), moved)
    return distances


def shifted(difference: Difference) -> tuple[Factor, Factor]:
    """x - c and y - c, for c the mean of the finite elements of y."""
    x, y, shared = difference.x, difference.y, difference.shared
    alone = [position for position, axis in enumerate(y.axes) if axis not in shared]
    total = sum_over(_finite(y.node), alone)
    count = y.node.tensor.size // total.tensor.size
    mean = build.emit("divide", (total, filled(count, total, total.shape)))
    # The sum may have overflowed.
    center = Factor(_finite(mean), tuple(axis for axis in y.axes if axis in shared))
    return _minus(x, center), _minus(y, center)


def _minus(x: Factor, center: Factor) -> Factor:
    axes = [x.axes.index(axis) for axis in center.axes]
    return Factor(build.subtract(x.node, build.broadcast(center.node, x.node.shape, axes)), x.axes)


def _finite(x: Node) -> Node:
    """x with 0 in place of NaN and inf."""
    return build.emit("select", (build.emit("is_finite", (x,)), x, filled(0, x, x.shape)))


# --- gradients of distances ---------------------------------------------------------------------


@rule("reduce")
def sum_of_differences(node: Node) -> Outcome:
    """sum(g[:, :, None] * (x[:, None] - y[None]), 1) => x * sum(g, 1) - g @ y

    Also with two differences, as gradients to lengthscales have them, with other factors, and over
    any of the axes. Points are first shifted by the mean of y. Exact but for rounding, in which
    large parts may cancel; and an infinite x may give inf where infinities of both signs, added up,
    gave NaN.
    """
    pattern = read_pattern(node)
    if pattern is None or pattern.is_square:
        return None
    shared = set(pattern.differences[0].shared)
    if {*pattern.summed} <= shared or any({*d.shared} != shared for d in pattern.differences):
        return None
    weighed = {axis for f in pattern.others if not {*f.axes} <= shared for axis in f.axes}
    if shared <= weighed:
        return Skip("the other factors vary along all axes")
    if refusal := _refusal(node, prod(pattern.shape[axis] for axis in shared - weighed)):
        return refusal
    if len(pattern.differences) > MOST_DIFFERENCES:
        return Skip(f"a product of more than {MOST_DIFFERENCES} differences")
    terms = [_term(pattern, sides) for sides in product((0, 1), repeat=len(pattern.differences))]
    if any(term is None or term.largest >= prod(pattern.shape) for term in terms):
        return Skip("the other factors vary along all axes")
    return _signed_sum([write_sum(term) for term in terms if term is not None])


MOST_DIFFERENCES = 2
"""In one product: of more, too many terms cancel."""


def _term(pattern: Pattern, sides: Sequence[int]) -> Sum | None:
    """The sum with x, side 0, or y, side 1, in place of each difference."""
    chosen = [shifted(d)[side] for d, side in zip(pattern.differences, sides, strict=True)]
    return sum_of([*pattern.others, *chosen], pattern.shape, pattern.summed)


def _signed_sum(terms: Sequence[Node]) -> Node:
    """x - y, or xx - xy - yx + yy."""
    total = build.subtract(terms[0], terms[1])
    return build.add(total, build.subtract(terms[3], terms[2])) if len(terms) == 4 else total


DISTANCE = Optimizer("distance", (squared_distance, sum_of_differences))
