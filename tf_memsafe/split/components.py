"""The parts of a program that can be cut without regard to each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.op import Cut
from tf_memsafe.split.cuts import axis_sizes, operand_cuts
from tf_memsafe.split.program import Program


def components(program: Program) -> list[Program]:
    """The program's parts, each a program of its own: what others compute is there for it.

    Two values are in one part if slices of one can be made of slices of the other, or if a third
    value is made of both. So how one part is cut does not change what another can be cut like, and
    to choose part by part takes time in proportion to the graph.
    """
    linked, outputs = _Groups(), frozenset(program.graph.outputs)
    for node in program.nodes:
        linked.join(_linked(program, node))
    members: dict[Node, list[Node]] = defaultdict(list)
    for node in program.nodes:
        if _is_cut(program, node):
            members[linked.first(node)].append(node)
    return [_part(program, found, outputs) for found in members.values()]


def _is_cut(program: Program, node: Node) -> bool:
    """Whether how the node is cut is up to the planner: what is virtual is cut as others are."""
    return node not in program.virtual and (node in program.streamed or node in program.between)


def _linked(program: Program, node: Node) -> list[Node]:
    """Of the node and its operands, those that have to be cut with regard to each other."""
    found = [operand for operand in node.operands if operand in program.streamed]
    if _is_cut(program, node):
        found.append(node)
        found += [operand for operand in _sliced_operands(node) if operand in program.between]
    return [each for each in found if each not in program.virtual]


def _sliced_operands(node: Node) -> Iterator[Node]:
    """The operands of which a slice of the node needs a slice, along any axis."""
    for axis, size in enumerate(axis_sizes(node)):
        needed = operand_cuts(node, Cut(axis)) if size > 1 else None
        for operand, cut in zip(node.operands, needed or (), strict=False):
            if cut is not None:
                yield operand


def _part(program: Program, members: list[Node], outputs: Collection[Node]) -> Program:
    """These nodes, what is made of them, and the virtual values that they are made of."""
    inside = set(members)
    results = {user: None for node in members for user in program.users[node] if user not in inside}
    results |= {node: None for node in members if node in outputs}
    known = {
        needed
        for node in (*members, *results)
        for needed in node.dependencies
        if needed not in inside and needed not in results and needed not in program.virtual
    }
    return Program(Graph((), tuple(results)), program.threshold, program.pinned, known)


class _Groups:
    """Groups of nodes, joined one by one (union-find)."""

    def __init__(self) -> None:
        self._towards: dict[Node, Node] = {}

    def first(self, node: Node) -> Node:
        """The node that stands for the group."""
        path = []
        while (following := self._towards.get(node, node)) is not node:
            path.append(node)
            node = following
        self._towards.update(dict.fromkeys(path, node))
        return node

    def join(self, nodes: Iterable[Node]) -> None:
        firsts = [self.first(node) for node in nodes]
        self._towards.update(dict.fromkeys(firsts, *firsts[:1]))
