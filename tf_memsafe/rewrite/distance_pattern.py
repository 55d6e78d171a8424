"""Sums over some axes of products in which differences of points are factors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.difference import Separable, read_separable
from tf_memsafe.rewrite.maths import is_sum, repeated_value, repeats
from tf_memsafe.rewrite.product import Factor, read_factors, times


class Pattern(NamedTuple):
    """A sum over some axes of differences, or their sines and cosines, times other factors."""

    shape: tuple[int, ...]
    summed: tuple[int, ...]
    separables: list[Separable]
    others: list[Factor]

    @property
    def shared(self) -> frozenset[int]:
        """The axes of a point: the same for all differences, or it is no pattern."""
        return self.separables[0].shared

    @property
    def is_over_coordinates(self) -> bool:
        """Whether all axes that are summed are a point's."""
        return {*self.summed} <= self.shared

    @property
    def is_square(self) -> bool:
        """Whether it is, over the coordinates, the sum of a square of differences, or of sines."""
        counts = Counter(self.separables).values()
        return self.is_over_coordinates and all(count % 2 == 0 for count in counts)

    @property
    def is_distance(self) -> bool:
        """Whether it is the sum, over the coordinates, of the square of one plain difference."""
        plain = self.separables[0].name == "subtract"
        once = len(self.summed) == 1 and len(self.separables) == 2
        return plain and once and self.is_square

    def own_factors(self) -> tuple[list[Factor], list[Factor]]:
        """The other factors that vary along a point's axes at most, and the rest."""
        own = [factor for factor in self.others if {*factor.axes} <= self.shared]
        return own, [factor for factor in self.others if factor not in own]


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
    separables: list[Separable] = []
    others: list[Factor] = []
    for factor in factors or ():
        full = not factor.divides and len(factor.axes) == whole.tensor.rank
        found = read_separable(factor.node) if full else None
        if found is None:
            others.append(factor)
        else:
            separables.append(found)
    shared = {one.shared for one in separables}
    if len(shared) != 1 or shared == {frozenset[int]()}:
        return None
    return Pattern(whole.shape, tuple(summed), separables, others)


def in_pairs(factors: Iterable[Factor]) -> tuple[list[Factor], list[Factor]]:
    """The square roots of factors that are squares, or come twice; and the factors left over."""
    counts = Counter(part for factor in factors for part in _without_constant(factor))
    roots, left = [], []
    for factor, count in counts.items():
        if root := _root(factor):
            roots += [root] * count
        else:
            roots += [factor] * (count // 2)
            left += [factor] * (count % 2)
    return roots, left


def _without_constant(factor: Factor) -> list[Factor]:
    """A factor with what is constant in it as a factor of its own."""
    if factor.node.name == "multiply":
        for x, y in (factor.node.operands, factor.node.operands[::-1]):
            if (value := repeated_value(x)) is not None:
                constant = Factor(build.constant(value, TensorType(x.dtype)), (), factor.divides)
                return [constant, Factor(y, factor.axes, factor.divides)]
    return [factor]


def _root(factor: Factor) -> Factor | None:
    """What a factor is the square of."""
    node, axes, divides = factor.node, factor.axes, factor.divides
    if node.name == "divide" and repeats(node.operands[0], 1):
        one, squared = node.operands
        root = _root(Factor(squared, axes, divides))
        return root and Factor(build.emit("divide", (one, root.node)), axes, divides)
    squares = node.name == "multiply" and node.operands[0] is node.operands[1]
    return Factor(node.operands[0], axes, divides) if squares else None


def times_others(total: Node, others: Iterable[Factor], summed: Sequence[int]) -> Node:
    """A sum times factors that do not vary along the axes that were summed."""
    everywhere = tuple(range(total.tensor.rank))
    for factor in others:
        axes = tuple(axis - sum(gone < axis for gone in summed) for axis in factor.axes)
        moved = Factor(factor.node, axes, factor.divides)
        total = times(Factor(total, everywhere), moved)
    return total
