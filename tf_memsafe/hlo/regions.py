"""Changes what is inside a node: a region taken out as a program of its own, and put back."""

from __future__ import annotations

from collections.abc import Callable

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node, Region, make
from tf_memsafe.hlo.rebuild import rebuild


def change_regions(node: Node, change: Callable[[Graph], Graph]) -> Node:
    """The node with each of its regions changed; itself if none is.

    change: takes a region as a graph, whose parameters are the region's and then its captures, and
    returns a graph with the same parameters and the same types of outputs.
    """
    regions = tuple(_changed(region, change) for region in node.regions)
    if regions == node.regions:
        return node
    return make(node.op, node.operands, node.type, node.attributes, regions, node.source)


def _changed(region: Region, change: Callable[[Graph], Graph]) -> Region:
    # Parameters stand for the captures, so that a change does not look through them.
    stand_ins = build.region_parameters([captured.tensor for captured in region.captures])
    own = {parameter: parameter for parameter in region.parameters}
    taken_out = rebuild(region.results, own | dict(zip(region.captures, stand_ins, strict=True)))
    graph = Graph((*region.parameters, *stand_ins), tuple(taken_out))
    changed = change(graph)
    if changed is graph:
        return region
    put_back = dict(zip(stand_ins, region.captures, strict=True))
    results = rebuild(changed.outputs, own | put_back)
    return Region(region.parameters, tuple(results), region.captures)
