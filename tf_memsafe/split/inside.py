"""Cuts again inside loops and branches: a user's, or the planner's own whose one step is large."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node, Region, make
from tf_memsafe.hlo.op import Fusion
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.rebuild import rebuild, remake
from tf_memsafe.split.liveness import estimate_peak, inside_peak

CutGraph = Callable[[Graph, int], Graph | None]
"""Cuts a graph so that it stays within some bytes, or returns None if there is nothing to cut."""


@dataclass(frozen=True)
class Inside:
    """Exchanges the regions of a graph for cut ones, as far as the limit asks for it."""

    cut: CutGraph
    limit: int
    fusing: bool

    def __call__(self, graph: Graph) -> Graph:
        """The graph with smaller regions; itself if it is within the limit as it is."""
        excess = estimate_peak(graph, self.fusing) - self.limit
        if excess <= 0:
            return graph
        new: dict[Node, Node] = {}
        for node in topological(graph.outputs):
            new[node] = self._smaller(remake(node, new), excess)
        return Graph(graph.parameters, tuple(new[output] for output in graph.outputs))

    def _smaller(self, node: Node, excess: int) -> Node:
        inside = inside_peak(node, self.fusing)
        if node.op.fusion is not Fusion.CALL or not node.regions or inside <= 0:
            return node
        room = max(0, inside - excess)
        regions = tuple(self._cut_region(region, room) for region in node.regions)
        return make(node.op, node.operands, node.type, node.attributes, regions, node.source)

    def _cut_region(self, region: Region, room: int) -> Region:
        """The region as a program of its own: what it is given is there whole, and not counted."""
        stand_ins = build.region_parameters([c.tensor for c in region.captures])
        captured = dict(zip(region.captures, stand_ins, strict=True))
        parameters = (*region.parameters, *stand_ins)
        results = rebuild(region.results, {p: p for p in region.parameters} | captured)
        given = sum(parameter.type.bytes for parameter in parameters)
        cut = self.cut(Graph(parameters, tuple(results)), room + given)
        if cut is None:
            return region
        back = {stand_in: capture for capture, stand_in in captured.items()}
        results = rebuild(cut.outputs, {p: p for p in region.parameters} | back)
        return Region(region.parameters, tuple(results), region.captures)
