"""From one tensor and one axis to the cut of everything connected to it (DESIGN 6.3)."""

from __future__ import annotations

from dataclasses import dataclass, field

from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.op import Cut
from tf_memsafe.split.cuts import carried, operand_cuts, ways
from tf_memsafe.split.program import Program


@dataclass(frozen=True)
class Violation:
    """Why an axis does not work: `user` needs `value` whole (or cannot be cut, if the same)."""

    value: Node
    user: Node


@dataclass
class Spread:
    """The cut of each value reached from the seed, and what stands against it."""

    cuts: dict[Node, Cut]
    violations: list[Violation] = field(default_factory=list)

    @property
    def hindrance(self) -> int:
        """Bytes that would have to exist whole for this to work."""
        return sum({v.value: v.value.type.bytes for v in self.violations}.values())


class Spreads:
    """The spreads of a program, each found once: one seed leads where those it reaches lead."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._found: dict[tuple[Node, Cut], Spread] = {}

    def __call__(self, seed: Node, axis: int) -> Spread:
        """Where cutting `seed` along `axis` leads."""
        key = (seed, Cut(axis))
        if key not in self._found:
            found = spread(self._program, seed, axis)
            for reached in found.cuts.items():
                self._found.setdefault(reached, found)
        return self._found[key]


def spread(program: Program, seed: Node, axis: int) -> Spread:
    """Cuts `seed` along `axis` and lets the choice reach its operands and users."""
    result = Spread({seed: Cut(axis)})
    queue = [seed]
    while queue:
        node = queue.pop()
        cut = result.cuts[node]
        found = _towards_operands(program, node, cut, result)
        found += _towards_users(program, node, cut, result)
        for reached, its_cut in found:
            if reached not in result.cuts:
                result.cuts[reached] = its_cut
                queue.append(reached)
    return result


def _towards_operands(
    program: Program, node: Node, cut: Cut, result: Spread
) -> list[tuple[Node, Cut]]:
    needed = operand_cuts(node, cut)
    if needed is None:
        if node in program.streamed:
            result.violations.append(Violation(node, node))
        return []
    found = []
    for operand, wanted in zip(node.operands, needed, strict=True):
        if wanted is None:
            if operand in program.streamed:
                result.violations.append(Violation(operand, node))
        elif operand in program.streamed:
            found.append((operand, wanted))
        elif operand in program.between:
            # It is reached from what it is made of; from here it could as well exist whole.
            result.cuts.setdefault(operand, wanted)
    return found


def _towards_users(
    program: Program, node: Node, cut: Cut, result: Spread
) -> list[tuple[Node, Cut]]:
    found = []
    for user in program.users[node]:
        its_cut = carried(user, node, cut)
        if its_cut is not None and (user in program.streamed or user in program.between):
            found.append((user, its_cut))
        elif its_cut is not None:
            result.cuts.setdefault(user, its_cut)
        elif (
            node in program.streamed
            and user not in program.streamed
            and not _combines(user, node, cut)
        ):
            result.violations.append(Violation(node, user))
    return found


def _combines(user: Node, node: Node, cut: Cut) -> bool:
    """Whether the user can be computed by combining what it makes of each chunk."""
    return any(
        way.contraction is not None
        and all(
            wanted == cut
            for operand, wanted in zip(user.operands, way.operands, strict=True)
            if operand is node
        )
        for way in ways(user, node, cut)
    )
