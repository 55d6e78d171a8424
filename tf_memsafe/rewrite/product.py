"""Sums of products over some axes, as einsum has them, and how to compute them without the whole.

A factor of a product of tensors mostly varies along some of its axes only. Here such a product is
read out of broadcasts and multiplications, and its sum is planned pair by pair on sizes alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import NamedTuple

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.hlo.ops.structure import literal
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.maths import dot, long_sizes, repeated_value, sum_over, transpose

MOST_FACTORS = 12
"""Of one product: planning a sum takes time with the third power of their number."""

# --- reading ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Factor:
    """A tensor that varies along some axes of a product, in ascending order, or divides it."""

    node: Node
    axes: tuple[int, ...]
    divides: bool = False


class _Part(NamedTuple):
    """A node in a product, and the product's axis of each of its axes; None for one that is 1."""

    node: Node
    axes: tuple[int | None, ...]
    divides: bool


def read_factors(
    product: Node, axes: Sequence[int] = (), shape: Sequence[int] = ()
) -> list[Factor] | None:
    """What a tensor is the product of; None if that is too much to look at.

    axes: where its axes are in a product of this shape; left out, it is the whole product.
    """
    found: list[Factor] = []
    shape, axes = shape or product.shape, axes or range(product.tensor.rank)
    pending = [_Part(product, tuple(axes), False)]
    while pending:
        part = _through_views(pending.pop())
        opened = _open(part, product.tensor.size)
        if opened is None:
            found.append(_factor(part, shape))
        else:
            pending += reversed(opened)
        if len(found) + len(pending) > MOST_FACTORS:
            return None
    return found


def read_factor(node: Node) -> Factor:
    """One tensor, without the axes along which it repeats."""
    part = _Part(node, tuple(range(node.tensor.rank)), False)
    return _factor(_through_views(part), node.shape)


def _open(part: _Part, whole: int) -> list[_Part] | None:
    """The parts that this one is the product, or quotient, of; None if it is no product.

    One that is small, and no larger than its parts, is not opened: it is there as it is.
    """
    node = part.node
    if node.tensor.size < whole and not _spreads(part):
        return None
    if node.name == "multiply":
        return [part._replace(node=operand) for operand in node.operands]
    if node.name == "negate":
        minus = build.constant(-1, TensorType(node.dtype))
        return [_Part(minus, (), False), part._replace(node=node.operands[0])]
    if node.name == "divide" and not part.divides:
        x, y = (part._replace(node=operand) for operand in node.operands)
        divisor = _through_views(y)
        if divisor.node.tensor.size < whole:
            return [x, divisor._replace(divides=True)]
    return None


def _spreads(part: _Part) -> bool:
    """Whether a product or quotient is larger than each of its parts."""
    if part.node.name not in ("multiply", "divide"):
        return False
    parts = (_through_views(part._replace(node=operand)).node for operand in part.node.operands)
    return all(narrow.tensor.size < part.node.tensor.size for narrow in parts)


def _through_views(part: _Part) -> _Part:
    """What the part repeats, or shows with more or fewer axes of one element."""
    while True:
        node, axes, divides = part
        if node.name == "broadcast_in_dim":
            x = node.operands[0]
            into = zip(x.shape, node["broadcast_dimensions"], strict=True)
            kept = tuple(axes[axis] if size == node.shape[axis] else None for size, axis in into)
        elif node.name == "reshape" and long_sizes(node) == long_sizes(node.operands[0]):
            x = node.operands[0]
            named = iter([axis for axis, size in zip(axes, node.shape, strict=True) if size != 1])
            kept = tuple(None if size == 1 else next(named) for size in x.shape)
        else:
            return part
        part = _Part(x, kept, divides)


def _factor(part: _Part, shape: Sequence[int]) -> Factor:
    node, axes, divides = part
    if node.tensor.size and (value := repeated_value(node)) is not None:
        return Factor(build.constant(value, TensorType(node.dtype)), (), divides)
    kept = [
        (axis, i)
        for i, axis in enumerate(axes)
        if axis is not None and node.shape[i] == shape[axis]
    ]
    order = [[i for _, i in kept].index(i) for _, i in sorted(kept)]
    narrow = build.reshape(node, [node.shape[i] for _, i in kept])
    return Factor(transpose(narrow, order), tuple(axis for axis, _ in sorted(kept)), divides)


# --- planning: sizes alone ----------------------------------------------------------------------


class Step(NamedTuple):
    """Two operands are multiplied, and summed over what nothing else needs.

    first, second: positions among the operands, of which the result becomes the last.
    """

    first: int
    second: int
    axes: frozenset[int]
    summed: frozenset[int]


@dataclass(frozen=True)
class Sum:
    """A sum over some axes of a product of operands, each with the axes along which it varies."""

    shape: tuple[int, ...]
    summed: frozenset[int]
    operands: tuple[Factor, ...]

    def size(self, axes: Iterable[int]) -> int:
        return prod(self.shape[axis] for axis in axes)

    @property
    def whole(self) -> int:
        """Elements of the product of all operands."""
        return self.size(frozenset[int]().union(*(operand.axes for operand in self.operands)))

    def steps(self) -> Iterator[Step]:
        """The pairs to multiply, the one with the smallest result first."""
        operands = [self._reduced(o.axes, self._others(i)) for i, o in enumerate(self.operands)]
        while len(operands) > 1:
            pairs = list(combinations(range(len(operands)), 2))
            step = min((self._step(operands, *pair) for pair in pairs), key=self._price)
            yield step
            operands = [o for i, o in enumerate(operands) if i not in step[:2]] + [step.axes]

    def _others(self, position: int) -> frozenset[int]:
        others = (o.axes for i, o in enumerate(self.operands) if i != position)
        return frozenset[int]().union(*others)

    def _reduced(self, axes: Iterable[int], elsewhere: Collection[int]) -> frozenset[int]:
        return frozenset(axis for axis in axes if axis not in self.summed or axis in elsewhere)

    def _step(self, operands: Sequence[frozenset[int]], first: int, second: int) -> Step:
        others = (o for i, o in enumerate(operands) if i not in (first, second))
        both = operands[first] | operands[second]
        kept = self._reduced(both, frozenset[int]().union(*others))
        return Step(first, second, kept, both - kept)

    def _price(self, step: Step) -> tuple[int, int]:
        return self.size(step.axes), self.size(step.axes | step.summed)

    @property
    def largest(self) -> int:
        """Elements of the largest value that is stored: an operand or a result of a step."""
        operands = [self.size(operand.axes) for operand in self.operands]
        return max(*operands, *(self.size(step.axes) for step in self.steps()), 0)

    @property
    def inner_sizes(self) -> list[int]:
        """How many terms each matrix product on the way adds up."""
        operands = [self._reduced(o.axes, self._others(i)) for i, o in enumerate(self.operands)]
        found = []
        for step in self.steps():
            x, y = operands[step.first], operands[step.second]
            if step.summed and x - y and y - x:
                found.append(self.size(step.summed))
            operands = [o for i, o in enumerate(operands) if i not in step[:2]] + [step.axes]
        return found


# --- writing ------------------------------------------------------------------------------------


def sum_of(factors: Sequence[Factor], shape: Sequence[int], summed: Iterable[int]) -> Sum | None:
    """The sum over these axes of a product; None if nothing in it varies.

    Divisors and factors that do not vary are taken into the smallest operand that they fit.
    """
    operands = [f for f in factors if f.axes and not f.divides]
    if not operands:
        return None
    for factor in _with_one_constant([f for f in factors if f.divides or not f.axes]):
        fitting = [o for o in operands if {*factor.axes} <= {*o.axes}]
        if fitting:
            smallest = min(fitting, key=lambda o: o.node.tensor.size)
            place = operands.index(smallest)
            operands[place] = Factor(times(smallest, factor), smallest.axes)
        else:
            one = Factor(build.constant(1, TensorType(factor.node.dtype)), ())
            operands.append(Factor(times(one, factor), factor.axes))
    return Sum(tuple(shape), frozenset(summed), tuple(operands))


def _with_one_constant(factors: Sequence[Factor]) -> list[Factor]:
    """The factors with the constants among them multiplied into one."""
    constants = [f for f in factors if f.node.name == "constant" and not f.divides]
    if len(constants) < 2:
        return list(factors)
    value = prod(literal(f.node)[0] for f in constants)
    made = Factor(build.constant(value, constants[0].node.tensor), ())
    return [made, *(f for f in factors if f not in constants)]


def times(factor: Factor, other: Factor) -> Node:
    """The product, or quotient, of two factors, along the axes of both."""
    axes = sorted({*factor.axes, *other.axes})
    sizes = dict(zip(factor.axes, factor.node.shape, strict=True))
    sizes |= dict(zip(other.axes, other.node.shape, strict=True))
    shape = [sizes[axis] for axis in axes]
    x, y = (
        build.broadcast(f.node, shape, [axes.index(a) for a in f.axes]) for f in (factor, other)
    )
    return build.emit("divide" if other.divides else "multiply", (x, y))


def write_sum(sum_: Sum) -> Node:
    """The nodes that compute a sum: its axes that are not summed, in order."""
    operands = [_reduced(o, o.axes, sum_._others(i), sum_) for i, o in enumerate(sum_.operands)]
    for step in sum_.steps():
        made = _pair(operands[step.first], operands[step.second], step)
        operands = [o for i, o in enumerate(operands) if i not in step[:2]] + [made]
    (total,) = operands
    kept = [axis for axis in range(len(sum_.shape)) if axis not in sum_.summed]
    node = total.node
    repeats = sum_.size(axis for axis in sum_.summed if axis not in _all_axes(sum_))
    if repeats != 1:
        node = build.multiply(node, build.broadcast(_scalar(repeats, node), node.shape))
    shape = [sum_.shape[axis] for axis in kept]
    return build.broadcast(node, shape, [kept.index(axis) for axis in total.axes])


def _scalar(value: float, like: Node) -> Node:
    return build.constant(value, TensorType(like.dtype))


def _all_axes(sum_: Sum) -> set[int]:
    return {axis for operand in sum_.operands for axis in operand.axes}


def _reduced(factor: Factor, axes: Sequence[int], others: Collection[int], sum_: Sum) -> Factor:
    """The factor summed over what it alone varies along."""
    alone = [axis for axis in axes if axis in sum_.summed and axis not in others]
    node = sum_over(factor.node, [axes.index(axis) for axis in alone])
    return Factor(node, tuple(axis for axis in axes if axis not in alone))


def _pair(x: Factor, y: Factor, step: Step) -> Factor:
    axes = sorted(step.axes)
    if not step.summed or {*x.axes} <= {*y.axes} or {*y.axes} <= {*x.axes}:
        both = sorted({*x.axes, *y.axes})
        total = sum_over(times(x, y), [both.index(axis) for axis in step.summed])
        return Factor(total, tuple(axes))
    shared = [axis for axis in x.axes if axis in y.axes and axis in step.axes]
    inner = [axis for axis in x.axes if axis in step.summed]
    numbers = DotNumbers(
        *(tuple(f.axes.index(axis) for axis in shared) for f in (x, y)),
        *(tuple(f.axes.index(axis) for axis in inner) for f in (x, y)),
    )
    free = [axis for f in (x, y) for axis in f.axes if axis not in (*shared, *inner)]
    order = [*shared, *free]
    product = transpose(dot(x.node, y.node, numbers), [order.index(axis) for axis in axes])
    return Factor(product, tuple(axes))
