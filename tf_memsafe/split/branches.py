"""Computes what a branch needs of an earlier branch again, in place of keeping it for that.

The gradient of `tf.cond` is a second conditional on the same predicate, whose branches read what
the branches of the first computed on the way. Each branch of the second can compute that itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node, Region
from tf_memsafe.hlo.order import topological, users
from tf_memsafe.hlo.rebuild import rebuild, remake
from tf_memsafe.split.stacks import has_effects, inside
from tf_memsafe.split.steps import repeated, with_regions

BRANCHES = ("if", "case")


def recompute_branches(graph: Graph) -> Graph:
    """The graph whose branches compute what only they need of an earlier branch.

    The graph itself if none of them reads any such thing.
    """
    nodes = topological(graph.outputs)
    used_by = users(nodes)
    needed = {
        node for node in nodes if node not in graph.outputs and _only_branches(node, used_by[node])
    }
    return without_unused_results(_recomputed(graph, nodes, needed)) if needed else graph


def _only_branches(result: Node, its_users: Sequence[Node]) -> bool:
    """Whether this is computed in branches, and only needed in later ones on the same predicate."""
    source = result.operands[0] if result.name == "get_tuple_element" else result
    if source.name not in BRANCHES or source is result or not its_users:
        return False
    if any(has_effects(node) for region in source.regions for node in inside(region)):
        return False
    return all(user.name in BRANCHES and user.operands == source.operands for user in its_users)


def _recomputed(graph: Graph, nodes: Sequence[Node], needed: Collection[Node]) -> Graph:
    new: dict[Node, Node] = {}
    again: set[Node] = set()
    for node in nodes:
        made = remake(node, new)
        if node.name in BRANCHES:
            regions = [_region(region, i, again) for i, region in enumerate(made.regions)]
            made = with_regions(made, regions)
        new[node] = made
        if node in needed:
            again.add(made)
    return Graph(graph.parameters, tuple(new[output] for output in graph.outputs))


def _region(region: Region, branch: int, again: Collection[Node]) -> Region:
    """The region of a branch, which computes what it captured of `again`."""
    known = {capture: capture for capture in region.captures}
    captures = [capture for capture in region.captures if capture not in again]
    for capture in region.captures:
        if capture in again:
            source = capture.operands[0].regions[branch]
            known[capture] = source.results[capture["index"]]
            captures += source.captures
    results = rebuild(region.results, known)
    # A repeated value is written inside, where it costs nothing.
    needed = dict.fromkeys(capture for capture in captures if repeated(capture) is None)
    return Region(region.parameters, tuple(results), tuple(needed))


def without_unused_results(graph: Graph) -> Graph:
    """The graph whose branches, those in loops as well, return what is used."""
    return Graph(graph.parameters, tuple(_used(graph.outputs, graph.parameters)))


def _used(roots: Sequence[Node], known: Sequence[Node]) -> list[Node]:
    new = {node: node for node in known}
    nodes = topological(roots, new)
    indices: dict[Node, list[int]] = {}
    for node in nodes:
        if node.name == "get_tuple_element" and node.operands[0].name in BRANCHES:
            indices.setdefault(node.operands[0], []).append(node["index"])
    for node in nodes:
        if node in new:
            continue
        made = remake(node, new)
        regions = tuple(_within(region) for region in made.regions)
        new[node] = made if regions == made.regions else with_regions(made, regions)
        if node in indices:
            old, fewer = build.results(node), _fewer(new[node], indices[node])
            new |= {old[p]: value for p, value in zip(indices[node], fewer, strict=True)}
    return [new[root] for root in roots]


def _within(region: Region) -> Region:
    results = _used(region.results, (*region.parameters, *region.captures))
    return Region(region.parameters, tuple(results), region.captures)


def _fewer(node: Node, indices: Sequence[int]) -> tuple[Node, ...]:
    """Some of the results of a conditional that returns no others."""
    regions = [
        Region((), tuple(region.results[p] for p in indices), region.captures)
        for region in node.regions
    ]
    return build.results(build.emit(node.name, node.operands, regions=regions, source=node.source))
