"""distance: squared Euclidean distances, and their gradients, in the form that is faster.

As matrix products, for points of many coordinates: the tensor of all differences, [n, m, D], is not
needed then. As a sum of squared differences, for points of few.
"""

from __future__ import annotations

from collections.abc import Sequence

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.op import Fusion
from tf_memsafe.rewrite.difference import Difference, finite, read_difference, shifted
from tf_memsafe.rewrite.distance_gradient import sum_of_differences
from tf_memsafe.rewrite.distance_pattern import in_pairs, read_pattern, times_others
from tf_memsafe.rewrite.distance_product import product_form
from tf_memsafe.rewrite.distance_size import product_refusal
from tf_memsafe.rewrite.maths import filled, repeated_value
from tf_memsafe.rewrite.product import Factor, Sum, read_factor, times, write_sum
from tf_memsafe.rewrite.rule import Optimizer, Outcome, Skip, rule


@rule("reduce", "dot_general")
def squared_distance(node: Node) -> Outcome:
    """sum((x[:, None] - y[None])**2, -1) => max(|x|**2 + |y|**2 - 2 x @ transpose(y), 0)

    Also with scales: sum(((x - y) / l)**2, -1). Points are first shifted by the mean of some of y,
    so that a common offset costs no digits. The error is that of rounding |x|**2 + |y|**2 after the
    shift: for points much closer to each other than to the mean it is a larger part of the
    distance, the distance of a point to itself is 0 but for it, and so may distances be that were
    equal.

    NaN stays where it was, and so does inf but for two points that are infinite in the same
    coordinate: they are inf apart, where inf - inf gave NaN. Where the square of a shifted point
    overflows, and that of the difference did not, the result is NaN or inf.
    """
    pattern = read_pattern(node)
    if pattern is None:
        return _other_distance(node)
    if not pattern.is_distance:
        return None
    (along,) = pattern.summed
    if skip := product_refusal(node.dtype, pattern.shape[along]):
        return skip
    own, others = pattern.own_factors()
    scales, left = in_pairs(own)
    if any(along in factor.axes for factor in (*left, *others)):
        return Skip("the weights of the coordinates are not squares of scales")
    difference = pattern.separables[0].difference
    distances = _distances(difference, scales, along, pattern.shape)
    return times_others(distances, left + others, pattern.summed)


def _distances(
    difference: Difference, scales: Sequence[Factor], along: int, shape: Sequence[int]
) -> Node:
    x, y = shifted(difference)
    for scale in scales:
        x, y = (Factor(times(side, scale), side.axes) for side in (x, y))

    def summed(*factors: Factor) -> Node:
        return write_sum(Sum(tuple(shape), frozenset((along,)), factors))

    # A square keeps an inf or NaN that the product would turn into NaN everywhere.
    x_finite, y_finite = (Factor(finite(side.node), side.axes) for side in (x, y))
    minus_two = filled(-2, x.node, x.node.shape)
    minus_twice_x = Factor(build.multiply(minus_two, x_finite.node), x.axes)
    squares = build.add(summed(x, x), summed(y, y))
    total = build.add(squares, summed(minus_twice_x, y_finite))
    return build.emit("maximum", (total, filled(0, total, total.shape)))


# --- what looks alike ---------------------------------------------------------------------------

DEEPEST = 6
"""Elementwise ops between a reduction and the differences that it is of."""


def _other_distance(node: Node) -> Skip | None:
    """Why a reduction of differences is no squared distance."""
    if node.name != "reduce" or len(node.operands) != 2:
        return None
    x = node.operands[0]
    between: list[Node] = []
    while (difference := read_difference(x)) is None:
        if x.op.fusion is not Fusion.LOOP or not x.operands or len(between) == DEEPEST:
            return None
        between.append(x)
        x = max(x.operands, key=lambda operand: read_factor(operand).node.tensor.size)
    if not {*node["dimensions"]} <= difference.shared:
        return None
    return _why_not(node, between)


def _why_not(node: Node, between: Sequence[Node]) -> Skip | None:
    for each in between:
        if each.name == "power":
            exponent = repeated_value(each.operands[1])
            return Skip(f"the exponent is {'no constant' if exponent is None else exponent}, not 2")
        if each.name == "convert":
            return Skip(f"{each.operands[0].dtype} has too few digits for it")
        if each.name == "multiply" and each.operands[0] is each.operands[1]:
            if node.regions[0].results[0].name != "add":
                return Skip("the squares of the differences are not added up")
        elif each.name not in ("multiply", "divide", "negate"):
            return Skip(f"the differences are not squared, but go through {each.name}")
    return None


# --- roots --------------------------------------------------------------------------------------


@rule("multiply")
def square_of_root(node: Node) -> Outcome:
    """sqrt(d) * sqrt(d) => d, for distances d, as tf.norm(x - y)**2 has them, but for rounding"""
    root, other = node.operands
    if root is not other or root.name != "sqrt":
        return None
    distances = root.operands[0]
    return distances if _is_positive(distances) else None


def _is_positive(node: Node) -> bool:
    """Whether no element is negative: a sum of squares, or a value that is clamped at 0."""
    if node.name == "reshape":
        return _is_positive(node.operands[0])
    if node.name == "maximum":
        low = repeated_value(node.operands[1])
        return isinstance(low, float) and low >= 0
    pattern = read_pattern(node) if node.name == "reduce" else None
    return pattern is not None and pattern.is_distance and not in_pairs(pattern.others)[1]


DISTANCE = Optimizer(
    "distance", (squared_distance, sum_of_differences, product_form, square_of_root)
)
