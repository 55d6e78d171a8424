"""While loops that run a known number of times, and which of their values count the steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
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

    def at(self, step: int) -> int:
        return self.start + step * self.step

    def after(self, inner: Affine) -> Affine:
        """This number of a step that is itself the number `inner` of another step."""
        return Affine(self.at(inner.start), self.step * inner.step)


Numbers = Mapping[Node, Affine]
"""The whole numbers, with one element each, that are known in every step."""


class NumberStack(NamedTuple):
    """A stack of known numbers: the entry at each index from `first` up to `last`."""

    value: Affine
    first: int
    last: int


NumberStacks = Mapping[Node, NumberStack]
NO_STACKS: NumberStacks = MappingProxyType({})


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

    def known_numbers(self, stacks: NumberStacks = NO_STACKS) -> dict[Node, Affine]:
        """The numbers of the body; `stacks` are parameters and captures that hold known ones."""
        given = {self.body.parameters[p]: value for p, value in self.counters.items()}
        return _numbers(self.body, given, self.trips, stacks)


def counted_loops(nodes: Iterable[Node]) -> dict[Node, CountedLoop]:
    """The loops among the nodes of one scope, given in order, whose number of steps is known."""
    known: dict[Node, Affine] = {}
    loops: dict[Node, CountedLoop] = {}
    for node in nodes:
        if loop := counted_loop(node, known):
            loops[node] = loop
        elif (value := outer_number(node, known, loops)) is not None:
            known[node] = value
    return loops


def outer_number(node: Node, known: Numbers, loops: Mapping[Node, CountedLoop]) -> Affine | None:
    """The number that a node outside of loops is, if it follows from known ones."""
    if node.name == "get_tuple_element" and node.operands[0] in loops:
        loop = loops[node.operands[0]]
        counter = loop.counters.get(node["index"])
        return Affine(counter.at(loop.trips)) if counter else None
    return _value(node, known, 1, NO_STACKS)


def counted_loop(node: Node, known: Numbers) -> CountedLoop | None:
    """The node as a counted loop, if it is one; `known` are the numbers around it."""
    sized = not any(type_.is_dynamic for type_ in node.results)
    if node.name != "while" or not isinstance(node.type, TupleType) or not sized:
        return None
    condition, body = node.regions
    counters: dict[int, Affine] = {}
    pairs = list(zip(body.parameters, body.results, strict=True))
    for position, (parameter, result) in enumerate(pairs):
        start, growth = known.get(node.operands[position]), _growth(parameter, result)
        if start is not None and growth is not None:
            counters[position] = Affine(start.start, growth)
    trips = _trips(condition, counters)
    if trips is None:
        return None
    invariant = frozenset(p for p, (parameter, result) in enumerate(pairs) if result is parameter)
    certain = {
        position: value
        for position, value in counters.items()
        if _representable(value, node.results[position].dtype, trips + 1)
    }
    return CountedLoop(node, trips, certain, invariant)


def _growth(parameter: Node, result: Node) -> int | None:
    """By how much one step of the body increases a number of the state."""
    if result is parameter:
        return 0
    given = {parameter: Affine(0, 1)}
    value = _numbers(Region((parameter,), (result,)), given, 1, NO_STACKS).get(result)
    return value.start if value and value.step == 1 else None


# --- the number of steps ---


def _trips(condition: Region, counters: Mapping[int, Affine]) -> int | None:
    """The number of steps if the loop goes on while known numbers are below known bounds."""
    given = {condition.parameters[p]: value for p, value in counters.items()}
    known = _numbers(condition, given, 1, NO_STACKS)
    tests = list(_conjuncts(condition.results[0]))
    bounds = [_steps_below(difference) for test in tests if (difference := _margin(test, known))]
    if len(bounds) < len(tests) or all(bound is None for bound in bounds):
        return None
    trips = min(bound for bound in bounds if bound is not None)
    sides = [(known[side], side.dtype) for test in tests for side in test.operands]
    safe = all(_representable(value, dtype, trips + 1) for value, dtype in sides)
    return trips if safe else None


def _conjuncts(test: Node) -> Iterator[Node]:
    if test.name == "and":
        for operand in test.operands:
            yield from _conjuncts(operand)
    elif not (test.name == "constant" and literal(test).all()):
        yield test


def _margin(test: Node, known: Numbers) -> Affine | None:
    """The number that is below 0 as long as the test holds."""
    if test.name != "compare" or any(operand not in known for operand in test.operands):
        return None
    direction = test["comparison_direction"].value
    smaller, larger = (known[operand] for operand in test.operands)
    if direction in ("GT", "GE"):
        smaller, larger = larger, smaller
    elif direction not in ("LT", "LE"):
        return None
    or_equal = direction in ("LE", "GE")
    return Affine(smaller.start - larger.start - or_equal, smaller.step - larger.step)


def _steps_below(margin: Affine) -> int | None:
    """In how many steps the number is below 0; None if it stays there."""
    if margin.start >= 0:
        return 0
    return -(margin.start // margin.step) if margin.step > 0 else None


# --- numbers ---


def _numbers(
    region: Region, given: Numbers, trips: int, stacks: NumberStacks
) -> dict[Node, Affine]:
    known = dict(given)
    for node in topological(region.results, {*region.parameters, *region.captures}):
        if (value := _value(node, known, trips, stacks)) is not None:
            known[node] = value
    return known


SAME_NUMBER = {"reshape", "convert", "broadcast_in_dim", "concatenate"}
"""Ops that, with one operand and one element, pass a number on."""


def _value(node: Node, known: Numbers, trips: int, stacks: NumberStacks) -> Affine | None:
    """The number that a node is in each of `trips` steps, if it follows from known ones."""
    if not isinstance(node.type, TensorType) or node.dtype not in COUNTING or node.tensor.size != 1:
        return None
    value = None
    if node.name == "constant":
        value = Affine(int(literal(node)[0]))
    elif node.name == "select":
        value = _selected(node, known, trips)
    elif node.name == "dynamic_slice" and node.operands[0] in stacks:
        value = _entry(stacks[node.operands[0]], known.get(node.operands[1]), trips)
    elif all(operand in known for operand in node.operands):
        value = _computed(node, [known[operand] for operand in node.operands])
    return _representable(value, node.dtype, trips)


def _computed(node: Node, operands: list[Affine]) -> Affine | None:
    if node.name in SAME_NUMBER and len(operands) == 1:
        return operands[0]
    if node.name in ("add", "subtract"):
        x, y = operands
        sign = 1 if node.name == "add" else -1
        return Affine(x.start + sign * y.start, x.step + sign * y.step)
    if node.name == "multiply":
        constant, other = sorted(operands, key=lambda value: value.step != 0)
        return Affine(0, constant.start).after(other) if constant.step == 0 else None
    return None


def _selected(node: Node, known: Numbers, trips: int) -> Affine | None:
    """What is selected, if that is the same in all steps."""
    test, *choices = node.operands
    margin = _margin(test, known)
    holds = {margin.at(step) < 0 for step in (0, trips - 1)} if margin else set()
    return known.get(choices[0 if holds.pop() else 1]) if len(holds) == 1 else None


def _entry(stack: NumberStack, index: Affine | None, trips: int) -> Affine | None:
    """What is read at an index, if it was written there."""
    if index is None or not all(stack.first <= index.at(i) <= stack.last for i in (0, trips - 1)):
        return None
    return stack.value.after(index)


def _representable(value: Affine | None, dtype: str, trips: int) -> Affine | None:
    """The number, unless it wraps around in one of the steps."""
    if value is None:
        return None
    return value if all(abs(value.at(i)) < COUNTING[dtype] for i in (0, trips - 1)) else None
