"""Cuts again inside loops and branches: a user's, or the planner's own whose one step is large."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node, Region
from tf_memsafe.hlo.rebuild import rebuild, remake
from tf_memsafe.split.liveness import estimate_peak, inside_peak, live_around
from tf_memsafe.split.steps import with_regions

CutGraph = Callable[[Graph, int], Graph | None]
"""Cuts a graph so that it stays within some bytes, or returns None if there is nothing to cut."""


MOST_REMEMBERED = 200
"""Of how many regions the programs are kept: planning asks for one under several limits."""


@dataclass(frozen=True)
class Inside:
    """Exchanges the regions of a graph for cut ones, as far as the limit asks for it."""

    cut: CutGraph
    limit: int
    fusing: bool

    def __call__(self, graph: Graph) -> Graph:
        """The graph with smaller regions; itself if it is within the limit as it is."""
        if estimate_peak(graph, self.fusing) <= self.limit:
            return graph
        new = {parameter: parameter for parameter in graph.parameters}
        for node, around in live_around(graph, self.fusing).items():
            new[node] = self._smaller(remake(node, new), max(0, self.limit - around))
        return Graph(graph.parameters, tuple(new[output] for output in graph.outputs))

    def _smaller(self, node: Node, room: int) -> Node:
        """The node with regions that need no more than the room that is left for them."""
        if inside_peak(node, self.fusing) <= room:
            return node
        regions = tuple(self._cut_region(region, room) for region in node.regions)
        return with_regions(node, regions)

    def _cut_region(self, region: Region, room: int) -> Region:
        """The region, cut as a program of its own: what it is given is there whole, not counted."""
        program = _program(region)
        given = sum(parameter.type.bytes for parameter in program.parameters)
        cut = self.cut(program, room + given)
        if cut is None:
            return region
        outside = (*region.parameters, *region.captures)
        results = rebuild(cut.outputs, dict(zip(program.parameters, outside, strict=True)))
        return Region(region.parameters, tuple(results), region.captures)


@lru_cache(maxsize=MOST_REMEMBERED)
def _program(region: Region) -> Graph:
    """A region as a program of its own; the same one each time, so that its plans are known."""
    stand_ins = build.region_parameters([capture.tensor for capture in region.captures])
    known = {parameter: parameter for parameter in region.parameters}
    known |= zip(region.captures, stand_ins, strict=True)
    results = rebuild(region.results, known)
    return Graph((*region.parameters, *stand_ins), tuple(results))
