"""The graph as the planner sees it: who uses what, what is too large to exist whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from types import MappingProxyType

from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.op import Fusion
from tf_memsafe.hlo.ops.structure import is_splat
from tf_memsafe.hlo.order import topological, users

NO_PINS: Mapping[Node, Node] = MappingProxyType({})


class Program:
    """A graph, a size above which a value is not to exist whole, and the exceptions to that.

    threshold: bytes. pinned: values that have to exist whole however large, each with the user
    that needs it so. known: values that are there, however they are computed.
    """

    def __init__(
        self,
        graph: Graph,
        threshold: int,
        pinned: Mapping[Node, Node] = NO_PINS,
        known: Collection[Node] = (),
    ) -> None:
        self.graph = graph
        self.threshold = threshold
        self.pinned = pinned
        self._known = known
        self.nodes = topological(graph.outputs, known)
        self.existing = _existing(self.nodes)
        self.streamed = self._find_streamed()

    def _find_streamed(self) -> frozenset[Node]:
        found: set[Node] = set()
        outputs = frozenset(self.graph.outputs)
        for node in self.nodes:
            exists = node in self.existing or node in self.pinned or node in outputs
            # A result of an op that exists whole costs nothing more.
            exists |= node.name == "get_tuple_element" and node.operands[0] not in found
            if node.type.bytes > self.threshold and not exists:
                found.add(node)
        return frozenset(found)

    def with_pins(self, pinned: Mapping[Node, Node]) -> Program:
        """The same program, but that these values exist whole as well."""
        return Program(self.graph, self.threshold, {**self.pinned, **pinned}, self._known)

    @cached_property
    def position(self) -> dict[Node, int]:
        """Where each node comes in an order that puts operands first."""
        return {node: index for index, node in enumerate(self.nodes)}

    @cached_property
    def users(self) -> dict[Node, list[Node]]:
        return users(self.nodes)

    @cached_property
    def virtual(self) -> frozenset[Node]:
        """Values made of constants and iotas alone: computed in the chunk, never stored."""
        found: set[Node] = set()
        for node in self.nodes:
            made_of_virtual = all(operand in found for operand in node.dependencies)
            fused = node.op.fusion is Fusion.LOOP or node.name == "constant"
            if fused and made_of_virtual and node not in self.existing:
                found.add(node)
        return frozenset(found)

    @cached_property
    def between(self) -> frozenset[Node]:
        """Small values that depend on streamed ones, and on which other streamed ones depend."""
        below: set[Node] = set()
        for node in self.nodes:
            if any(d in self.streamed or d in below for d in node.dependencies):
                below.add(node)
        above: set[Node] = set()
        for node in reversed(self.nodes):
            if any(user in self.streamed or user in above for user in self.users[node]):
                above.add(node)
        return frozenset((below & above) - self.streamed - self.pinned.keys())


def _existing(nodes: list[Node]) -> frozenset[Node]:
    """The values that are there before the program starts, and the same in another shape."""
    found: set[Node] = set()
    for node in nodes:
        given = node.name == "parameter" or (node.name == "constant" and not is_splat(node))
        if given or (node.name == "reshape" and node.operands[0] in found):
            found.add(node)
    return frozenset(found)
