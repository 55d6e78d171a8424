"""How much memory a graph needs at once, estimated from liveness in milliseconds.

The estimate ranks plans and picks chunk sizes; XLA's buffer assignment has the last word.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.op import Fusion
from tf_memsafe.hlo.ops.elementwise import CHEAP, UNARY
from tf_memsafe.hlo.order import topological, users

ALIASES = {"reshape", "get_tuple_element", "while", "dynamic_update_slice", "optimization_barrier"}
"""Ops whose result takes over the buffers of their operands."""


EXPENSIVE = {"divide", "remainder", *(n for n in UNARY if n not in CHEAP), "power", "atan2", "erf"}
"""Ops that XLA does not repeat to save a buffer."""


def estimate_peak(graph: Graph, fusing: bool = True) -> int:
    """Bytes of arguments, results and the temporaries that live at the same time.

    fusing: whether XLA is taken to compute values inside their users' loops, as it mostly does.
    """
    arguments = sum(parameter.type.bytes for parameter in graph.parameters)
    return arguments + _peak(graph.outputs, graph.parameters, fusing)


BOUND_FACTOR = 4
"""Of a value's bytes: more than the copies and workspaces that XLA adds for any one op."""


def bound_peak(graph: Graph) -> int:
    """Bytes that the graph never needs more of at once: as if nothing were fused or freed."""
    arguments = sum(parameter.type.bytes for parameter in graph.parameters)
    return arguments + BOUND_FACTOR * _total(graph.outputs)


def _total(results: Sequence[Node]) -> int:
    nodes = topological(results)
    inside = sum(_total(region.results) for node in nodes for region in node.regions)
    return inside + sum(node.type.bytes for node in nodes)


def live_around(graph: Graph, fusing: bool = True) -> dict[Node, int]:
    """Bytes that are live while each node runs, but for what its regions need inside."""
    arguments = sum(parameter.type.bytes for parameter in graph.parameters)
    live = _live(graph.outputs, graph.parameters, fusing)
    return {node: arguments + around for node, around in live}


def _peak(results: Sequence[Node], known: Collection[Node], fusing: bool) -> int:
    live = _live(results, known, fusing)
    return max((around + inside_peak(node, fusing) for node, around in live), default=0)


def _live(
    results: Sequence[Node], known: Collection[Node], fusing: bool
) -> Iterator[tuple[Node, int]]:
    nodes = topological(results, known)
    used_by = users(nodes)
    stored = {node for node in nodes if is_stored(node, used_by[node], results, fusing)}
    held = {node: node.type.bytes for node in stored} | _begun_by_loops(nodes)
    freed = _freed_after(nodes, used_by, stored, held, results)
    live = 0
    for node in nodes:
        live += held.get(node, 0)
        yield node, live + node.op.workspace(node)
        live -= sum(held[dead] for dead in freed.get(node, ()))


def _begun_by_loops(nodes: Sequence[Node]) -> dict[Node, int]:
    """Bytes of each loop's state that no other value's buffer can be taken over for."""
    return {node: _own_state(node) for node in nodes if node.name == "while"}


def _own_state(loop: Node) -> int:
    """Of what changes and starts as a constant, or as a value that starts another result, too."""
    body, taken, total = loop.regions[1], set[Node](), 0
    for operand, parameter, result in zip(
        loop.operands, body.parameters, body.results, strict=True
    ):
        if result is not parameter and (operand.name == "constant" or operand in taken):
            total += operand.type.bytes
        taken.add(operand)
    return total


def is_stored(
    node: Node, its_users: Sequence[Node], results: Collection[Node] = (), fusing: bool = True
) -> bool:
    """Whether XLA gives the value a buffer of its own."""
    if node.name in ALIASES or node.op.fusion is Fusion.FREE:
        return False
    if node.op.fusion is not Fusion.LOOP or node in results:
        return True
    if any(user.op.fusion is Fusion.CALL or _reduces_rows(user) for user in its_users):
        return True
    if not node.op.flops(node):
        return False
    return not fusing or (
        len(its_users) > 1 or (node.name in EXPENSIVE and _reuses(its_users, node))
    )


def _reduces_rows(node: Node) -> bool:
    """Whether a reduction leaves the axis that varies fastest: XLA then stores what it reduces."""
    return node.name == "reduce" and node.operands[0].tensor.rank - 1 not in node["dimensions"]


def _reuses(its_users: Sequence[Node], node: Node) -> bool:
    """Whether a user would compute an element again for each of several uses of it."""
    return any(user.name == "power" or user.operands.count(node) > 1 for user in its_users)


def _freed_after(
    nodes: Sequence[Node],
    used_by: dict[Node, list[Node]],
    stored: Collection[Node],
    held: Collection[Node],
    results: Sequence[Node],
) -> dict[Node, list[Node]]:
    """The buffers that are dead once a node has run."""
    position = {node: index for index, node in enumerate(nodes)}
    last: dict[Node, int] = {}
    for node in reversed(nodes):
        uses = [position[node]] if node not in results else [len(nodes)]
        for user in used_by[node]:
            # What is computed inside its user's loop, or lives on in it, is needed until that ends.
            ends = user in stored or not _lives_on(node, user)
            uses.append(position[user] if ends else last[user])
        last[node] = max(uses)
    freed: dict[Node, list[Node]] = {}
    for node in held:
        if last[node] < len(nodes):
            freed.setdefault(nodes[last[node]], []).append(node)
    return freed


def _lives_on(node: Node, user: Node) -> bool:
    """Whether what the user makes needs the node for as long as it is needed itself."""
    if user.name == "dynamic_update_slice":
        return node is user.operands[0]
    return user.name not in ALIASES or node in user.operands


def inside_peak(node: Node, fusing: bool = True) -> int:
    """What the regions of a loop or branch need beside what is live around them."""
    if node.op.fusion is not Fusion.CALL or not node.regions:
        return 0
    return max(
        _peak(region.results, {*region.parameters, *region.captures}, fusing)
        for region in node.regions
    )
