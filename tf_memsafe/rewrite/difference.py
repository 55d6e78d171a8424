"""Tensors of all pairs of points x and y that fall apart into something of each.

A difference x - y is such a sum of products, and so are its sine and cosine: sin(x - y) is
sin x cos y - cos x sin y.
"""

from __future__ import annotations

from typing import NamedTuple

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.rewrite.maths import filled, sum_over
from tf_memsafe.rewrite.product import Factor, read_factor, read_factors, times
from tf_memsafe.rewrite.sample import sampled

SAMPLE_SIZE = 1000
"""Points whose mean is near that of all, wherever those are: within a thirtieth of their spread."""


class Difference(NamedTuple):
    """x - y, for two tensors that vary along other axes."""

    node: Node
    x: Factor
    y: Factor

    @property
    def shared(self) -> frozenset[int]:
        """The axes along which both vary."""
        return frozenset(axis for axis in self.x.axes if axis in self.y.axes)


def read_difference(node: Node) -> Difference | None:
    """The difference, if it is much larger than what it is made of."""
    if node.name != "subtract":
        return None
    x, y = map(read_factor, node.operands)
    small = 2 * (x.node.tensor.size + y.node.tensor.size) < node.tensor.size
    return Difference(node, x, y) if small and x.axes and y.axes else None


def shifted(difference: Difference) -> tuple[Factor, Factor]:
    """x - c and y - c, for c the mean of the finite elements of a sample of y.

    Any c among the points would do: no point is further from it than the furthest are apart. The
    mean is taken in f64: a sum of many f32 that have an offset would lose what they differ in.
    """
    x, y, shared = difference.x, difference.y, difference.shared
    alone = [position for position, axis in enumerate(y.axes) if axis not in shared]
    sample = y.node
    if alone:
        longest = max(alone, key=lambda axis: sample.shape[axis])
        sample = sampled(sample, longest, SAMPLE_SIZE)
    total = sum_over(build.convert(finite(sample), "f64"), alone)
    count = sample.tensor.size // total.tensor.size
    mean = build.emit("divide", (total, filled(count, total, total.shape)))
    # The sum may have overflowed.
    center = finite(build.convert(mean, y.node.dtype))
    axes = tuple(axis for axis in y.axes if axis in shared)
    return _minus(x, Factor(center, axes)), _minus(y, Factor(center, axes))


def _minus(x: Factor, center: Factor) -> Factor:
    axes = [x.axes.index(axis) for axis in center.axes]
    return Factor(build.subtract(x.node, build.broadcast(center.node, x.node.shape, axes)), x.axes)


def finite(x: Node) -> Node:
    """x with 0 in place of NaN and inf."""
    return build.emit("select", (build.emit("is_finite", (x,)), x, filled(0, x, x.shape)))


# --- sums of products ---------------------------------------------------------------------------


class Term(NamedTuple):
    """A product of something of x and something of y; sign: 1 or -1."""

    sign: int
    factors: tuple[Factor, ...]


class Separable(NamedTuple):
    """A difference, or its sine or cosine, as a sum of products. name: "subtract", "sine", ..."""

    name: str
    difference: Difference
    scales: tuple[Factor, ...] = ()

    @property
    def shared(self) -> frozenset[int]:
        return self.difference.shared

    def terms(self) -> tuple[Term, Term]:
        x, y = shifted(self.difference)
        if self.name == "subtract":
            return Term(1, (x,)), Term(-1, (y,))
        for scale in self.scales:
            x, y = (Factor(times(side, scale), side.axes) for side in (x, y))
        sines, cosines = (
            [Factor(build.emit(name, (side.node,)), side.axes) for side in (x, y)]
            for name in ("sine", "cosine")
        )
        if self.name == "sine":
            return Term(1, (sines[0], cosines[1])), Term(-1, (cosines[0], sines[1]))
        return Term(1, (cosines[0], cosines[1])), Term(1, (sines[0], sines[1]))


def read_separable(node: Node) -> Separable | None:
    """What a tensor is of all pairs of points; None if it is none of these."""
    if node.name == "subtract":
        difference = read_difference(node)
        return Separable(node.name, difference) if difference else None
    if node.name not in ("sine", "cosine"):
        return None
    factors = read_factors(node.operands[0]) or []
    found = [d for f in factors if not f.divides and (d := read_difference(f.node))]
    if len(found) != 1 or found[0].node.shape != node.shape:
        return None
    scales = tuple(factor for factor in factors if factor.node is not found[0].node)
    fits = all(found[0].shared >= {*scale.axes} for scale in scales)
    return Separable(node.name, found[0], scales) if fits else None
