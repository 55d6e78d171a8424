"""From one tensor and one axis to the cut of everything connected to it (DESIGN 6.3)."""

from __future__ import annotations

from collections.abc import Mapping

from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.op import Cut
from tf_memsafe.split.cuts import axis_sizes, carried, operand_cuts, ways
from tf_memsafe.split.program import Program


class Spread:
    """Cuts a value along an axis, and lets the choice reach its operands and users, one by one.

    settled: values whose cut is chosen; the spread ends there.
    cuts: the cut of each value reached so far. hindrance: bytes that would have to exist whole for
    this to work; it only grows.
    """

    def __init__(
        self, program: Program, seed: Node, axis: int, settled: Mapping[Node, Cut]
    ) -> None:
        self._program = program
        self._settled = settled
        self._pending = [seed]
        self._needed_whole: set[Node] = set()
        self.cuts = {seed: Cut(axis)}
        self.hindrance = 0

    @property
    def is_done(self) -> bool:
        return not self._pending

    def advance(self) -> None:
        """Goes on from one of the values reached."""
        node = self._pending.pop()
        cut = self.cuts[node]
        found = self._towards_operands(node, cut) + self._towards_users(node, cut)
        for reached, its_cut in found:
            if reached not in self.cuts and reached not in self._settled:
                self.cuts[reached] = its_cut
                self._pending.append(reached)

    def _hinder(self, value: Node) -> None:
        """Some user needs the value whole, or it cannot be cut."""
        if value not in self._needed_whole:
            self._needed_whole.add(value)
            self.hindrance += value.type.bytes

    def _towards_operands(self, node: Node, cut: Cut) -> list[tuple[Node, Cut]]:
        needed = operand_cuts(node, cut)
        if needed is None:
            if node in self._program.streamed:
                self._hinder(node)
            return []
        found = []
        for operand, wanted in zip(node.operands, needed, strict=True):
            if wanted is None:
                if operand in self._program.streamed:
                    self._hinder(operand)
            elif operand in self._program.streamed:
                found.append((operand, wanted))
            elif operand in self._program.between:
                # It is reached from what it is made of; from here it could as well exist whole.
                self.cuts.setdefault(operand, wanted)
        return found

    def _towards_users(self, node: Node, cut: Cut) -> list[tuple[Node, Cut]]:
        streamed, found = self._program.streamed, []
        for user in self._program.users[node]:
            its_cut = carried(user, node, cut)
            if its_cut is not None and (user in streamed or user in self._program.between):
                found.append((user, its_cut))
            elif its_cut is not None:
                self.cuts.setdefault(user, its_cut)
            elif node in streamed and user not in streamed and not _combines(user, node, cut):
                self._hinder(node)
        return found


def spreads(program: Program, seed: Node, settled: Mapping[Node, Cut]) -> dict[int, Spread]:
    """For each axis of a value that can be cut, where that leads; finished."""
    found = _begin(program, seed, settled)
    for each in found.values():
        while not each.is_done:
            each.advance()
    return found


def least_hindered(program: Program, seed: Node, settled: Mapping[Node, Cut]) -> Spread:
    """Of a value's `spreads` the one with the least hindrance, the first of several.

    The others are followed only as long as it takes to know that: those of a long program's values
    together take time in proportion to the program.
    """
    begun = _begin(program, seed, settled)
    while True:
        axis = min(begun, key=lambda axis: begun[axis].hindrance)
        if begun[axis].is_done:
            return begun[axis]
        begun[axis].advance()


def _begin(program: Program, seed: Node, settled: Mapping[Node, Cut]) -> dict[int, Spread]:
    axes = [axis for axis, size in enumerate(axis_sizes(seed)) if size > 1]
    return {axis: Spread(program, seed, axis, settled) for axis in axes}


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
