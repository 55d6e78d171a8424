"""While loops that run a known number of times, and which of their values count the steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tf_memsafe.hlo.node import Node, Region
from tf_memsafe.hlo.ops.structure import literal
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.types import TensorType, TupleType

COUNTING = {"i32": 2**31, "i64": 2**63}
"""The dtypes that loops count in, each with the first number that it cannot hold."""


class Affine(NamedTuple):
    """A whole number: `start` in the first step, and larger by `step` in each that follows."""

    start: int
    step: int = 0


@dataclass(frozen=True)
class CountedLoop:
    """A while loop with several results that runs `trips` times.

    counters: the numbers of the state whose values are known, by their position in it.
    invariant: the positions of what the body passes on as it is.
    """

    node: Node
    trips: int
    counters: Mapping[int, Affine]
    invariant: frozenset[int]

    @property
    def body(self) -> Region:
        return self.node.regions[1]

    @property
    def counter(self) -> int:
        """The position of a number that grows by one each step."""
        return next(position for position, value in self.counters.items() if value.step == 1)

    def final(self, position: int) -> Affine | None:
        """What a number of the state is after the last step."""
        if position not in self.counters:
            return None
        first, step = self.counters[position]
        return _representable(Affine(first + self.trips * step), self.node.results[position].dtype)

    def known_numbers(self) -> dict[Node, Affine]:
        """The values of the body that are known in each step, up to wrapping around."""
        given = {self.body.parameters[p]: value for p, value in self.counters.items()}
        return _known(self.body, given)


def counted_loops(nodes: Iterable[Node]) -> dict[Node, CountedLoop]:
    """The loops among the nodes of one scope, given in order, whose number of steps is known."""
    loops: dict[Node, CountedLoop] = {}
    known: dict[Node, Affine] = {}
    for node in nodes:
        value = _value(node, known)
        if node.name == "while":
            if loop := _counted(node, known):
                loops[node] = loop
        elif node.name == "get_tuple_element" and node.operands[0] in loops:
            value = loops[node.operands[0]].final(node["index"])
        if value is not None:
            known[node] = value
    return loops


def _counted(node: Node, known: Mapping[Node, Affine]) -> CountedLoop | None:
    condition, body = node.regions
    if not isinstance(node.type, TupleType):
        return None
    counters: dict[int, Affine] = {}
    pairs = list(zip(body.parameters, body.results, strict=True))
    for position, (parameter, result) in enumerate(pairs):
        start, growth = known.get(node.operands[position]), _growth(parameter, result)
        if start is not None and growth is not None:
            counters[position] = Affine(start.start, growth)
    trips = _trips(condition, counters)
    if trips is None or all(value.step != 1 for value in counters.values()):
        return None
    invariant = frozenset(p for p, (parameter, result) in enumerate(pairs) if result is parameter)
    return CountedLoop(node, trips, counters, invariant)


def _growth(parameter: Node, result: Node) -> int | None:
    """By how much one step of the body increases a number of the state."""
    if result is parameter:
        return 0
    value = _value(result, {**_constants(result.operands), parameter: Affine(0, 1)})
    return value.start if value and value.step == 1 else None


def _constants(nodes: Iterable[Node]) -> dict[Node, Affine]:
    values = {node: _value(node, {}) for node in nodes}
    return {node: value for node, value in values.items() if value is not None}


def _trips(condition: Region, counters: Mapping[int, Affine]) -> int | None:
    """The number of steps if the loop goes on while counters are below known bounds."""
    known = _known(condition, {condition.parameters[p]: value for p, value in counters.items()})
    bounds = [_bound(test, known) for test in _conjuncts(condition.results[0])]
    numbers = [bound for bound in bounds if bound is not None]
    return min(numbers) if len(numbers) == len(bounds) else None


def _conjuncts(test: Node) -> Iterator[Node]:
    if test.name == "and":
        for operand in test.operands:
            yield from _conjuncts(operand)
    else:
        yield test


def _bound(test: Node, known: Mapping[Node, Affine]) -> int | None:
    if test.name != "compare" or test["comparison_direction"].value != "LT":
        return None
    counter, bound = (known.get(operand) for operand in test.operands)
    if counter is None or bound is None or counter.step != 1 or bound.step != 0:
        return None
    return max(0, bound.start - counter.start)


def _known(region: Region, given: Mapping[Node, Affine]) -> dict[Node, Affine]:
    known = dict(given)
    for node in topological(region.results, {*region.parameters, *region.captures}):
        if (value := _value(node, known)) is not None:
            known[node] = value
    return known


def _value(node: Node, known: Mapping[Node, Affine]) -> Affine | None:
    """The number that a node is, if it follows from known ones."""
    if not isinstance(node.type, TensorType) or node.shape or node.dtype not in COUNTING:
        return None
    if node.name == "constant":
        return Affine(int(literal(node)[0]))
    operands = [known[operand] for operand in node.operands if operand in known]
    if len(operands) != len(node.operands) or node.name not in ("add", "subtract"):
        return None
    x, y = operands
    sign = 1 if node.name == "add" else -1
    value = Affine(x.start + sign * y.start, x.step + sign * y.step)
    return _representable(value, node.dtype)


def _representable(value: Affine, dtype: str) -> Affine | None:
    return value if abs(value.start) < COUNTING[dtype] else None
