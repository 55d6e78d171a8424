"""What the body of a counted loop does with stacks: tensors that have an entry for each step."""

from __future__ import annotations

from dataclasses import dataclass

from tf_memsafe.hlo.node import Node, Region
from tf_memsafe.hlo.order import topological, users
from tf_memsafe.split.counted import (
    NO_STACKS,
    Affine,
    CountedLoop,
    NumberStack,
    NumberStacks,
)

NOWHERE = Affine(0)


@dataclass(frozen=True)
class Stack:
    """A value of a loop's state into which each step puts one entry.

    entry: what a step puts there, with an axis of 1 in front. index: where, by the loop's step.
    """

    entry: Node
    index: Affine


class LoopBody:
    """The body of a counted loop: its numbers, and its stacks.

    stacks: parameters and captures of the body that hold known numbers.
    """

    def __init__(self, loop: CountedLoop, stacks: NumberStacks = NO_STACKS) -> None:
        self.loop = loop
        self.known = loop.known_numbers(stacks)
        self.nodes = inside(loop.body)
        self.used_by = users(self.nodes)

    def written(self, position: int) -> Stack | None:
        """What is put into a value of the state, if that is its only use."""
        parameter, update = self.state(position)
        index = self.index(update)
        alone = self.used_by.get(parameter) == [update] and not self.used_by[update]
        once = self.loop.body.results.count(update) == 1
        if not index or not index.step or not alone or not once:
            return None
        ours = update.operands[0] is parameter and update.dependencies.count(parameter) == 1
        return Stack(update.operands[1], index) if ours else None

    def state(self, position: int) -> tuple[Node, Node]:
        """A value of the state, as the body takes it and as it returns it."""
        return self.loop.body.parameters[position], self.loop.body.results[position]

    def reads(self, stack: Node) -> dict[Node, Affine] | None:
        """The nodes that take one entry each, and which by step, if those are all its uses."""
        readers = self.used_by.get(stack, [])
        found = {
            node: index
            for node in readers
            if node.name == "dynamic_slice" and (index := self.index(node)) is not None
        }
        return found if len(found) == len(readers) and stack not in self.loop.body.results else None

    def index(self, node: Node) -> Affine | None:
        """Which entry a node takes from a stack or puts into it, if it is one, known, in bounds."""
        if node.name not in ("dynamic_slice", "dynamic_update_slice"):
            return None
        stack, part = node.operands[0], node if node.name == "dynamic_slice" else node.operands[1]
        if part.shape != (1, *stack.shape[1:]):
            return None
        first, *others = (self.known.get(start) for start in node.operands[-stack.tensor.rank :])
        ends = [first.at(step) for step in (0, self.loop.trips - 1)] if first else []
        within = all(0 <= end < stack.shape[0] for end in ends)
        return first if within and all(other == NOWHERE for other in others) else None

    def number_stack(self, position: int) -> NumberStack | None:
        """The known numbers that a value of the state holds in the end."""
        stack = self.written(position)
        value = self.known.get(stack.entry) if stack else None
        if stack is None or value is None or abs(stack.index.step) != 1:
            return None
        start, sign = stack.index
        ends = sorted(stack.index.at(step) for step in (0, self.loop.trips - 1))
        return NumberStack(value.after(Affine(-sign * start, sign)), *ends)


def inside(region: Region) -> list[Node]:
    """The nodes of a region, operands first."""
    return topological(region.results, {*region.parameters, *region.captures})


def is_loop_or_branch(node: Node) -> bool:
    return node.name in ("while", "if", "case")


def is_loop_result(node: Node) -> bool:
    """Whether the node is a result of a loop or branch, of which no part can be computed alone."""
    return node.name == "get_tuple_element" and is_loop_or_branch(node.operands[0])


def has_effects(node: Node) -> bool:
    """Whether computing the node again gives something else, as for random numbers."""
    within = (inner for region in node.regions for inner in inside(region))
    return node.op.effects or any(map(has_effects, within))
