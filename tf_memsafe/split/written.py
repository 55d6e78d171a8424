"""What a program takes in time once its loops are written: ranks plans with loops inside loops."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.order import topological, users
from tf_memsafe.split.cost import traffic, work
from tf_memsafe.split.counted import CountedLoop, counted_loops
from tf_memsafe.split.liveness import is_stored
from tf_memsafe.split.stacks import is_loop_or_branch
from tf_memsafe.split.target import Device

NOT_READ = {
    "while",
    "if",
    "case",
    "get_tuple_element",
    "optimization_barrier",
    "dynamic_update_slice",
}
"""What hands a value on, or writes into it, without reading it."""


def written_cost(graph: Graph, device: Device) -> int:
    """Units of time (`target.Device`) of a graph, each loop's body as often as it runs.

    A loop whose number of steps is not known counts once: it is the same in all plans.
    """
    return _cost(graph.outputs, graph.parameters, device)


def _cost(results: Sequence[Node], given: Collection[Node], device: Device) -> int:
    """Of one run of a scope, in which what is given is there already."""
    nodes = topological(results, given)
    used_by, loops = users(nodes), counted_loops(nodes)
    total = sum(_read(node, used_by.get(node, ()), device) for node in given)
    for node in nodes:
        if is_loop_or_branch(node):
            total += _inside(node, loops.get(node), device)
            continue
        total += work(node, device)
        if is_stored(node, used_by[node]):
            total += device.launch + traffic(node, 1, device)
            total += _read(node, used_by[node], device)
    return total


def _inside(node: Node, loop: CountedLoop | None, device: Device) -> int:
    """Of all runs of a loop's regions, or of the longest of a conditional's branches."""
    costs = [
        _cost(region.results, {*region.parameters, *region.captures}, device)
        for region in node.regions
    ]
    return max(costs) * (loop.trips if loop else 1)


def _read(node: Node, its_users: Sequence[Node], device: Device) -> int:
    """Of reading a value: only the slices that are taken of it, where its users take slices."""
    if not traffic(node, 1, device):
        return 0
    return sum(
        user.type.bytes if user.name == "dynamic_slice" else node.type.bytes
        for user in its_users
        if user.name not in NOT_READ
    )
