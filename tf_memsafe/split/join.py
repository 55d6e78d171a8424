"""Makes one loop of two that go through the same steps in the same order.

The loop of a second layer of a network reads in each step what the loop of the first put into a
stack in that step; so does the gradient of the first, from that of the second. In one loop there is
no stack between them.
"""

from __future__ import annotations

from collections.abc import Mapping

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.rebuild import rebuild
from tf_memsafe.split.counted import CountedLoop, counted_loops
from tf_memsafe.split.stacks import LoopBody
from tf_memsafe.split.steps import repeat


def join_loops(graph: Graph) -> Graph:
    """The same program with fewer loops; the graph itself if none can be joined.

    graph: with loops as `normal_loops` writes them.
    """
    while (joined := _joined(graph)) is not None:
        graph = joined
    return graph


def _joined(graph: Graph) -> Graph | None:
    nodes = topological(graph.outputs)
    bodies = {node: LoopBody(loop) for node, loop in counted_loops(nodes).items()}
    for number, (writer, body) in enumerate(bodies.items()):
        late = _depending(nodes, writer)
        for reader in list(bodies)[number + 1 :]:
            reads = _reads(body, bodies[reader], late)
            if reads:
                return _with_one(graph, body.loop, bodies[reader].loop, reads)
    return None


def _depending(nodes: list[Node], loop: Node) -> set[Node]:
    """The loop, and all that depends on it."""
    found = {loop}
    for node in nodes:
        if not found.isdisjoint(node.dependencies):
            found.add(node)
    return found


def _reads(writer: LoopBody, reader: LoopBody, late: set[Node]) -> dict[Node, Node]:
    """The reads of a loop that needs nothing else of another, each with what it finds there."""
    found: dict[Node, Node] = {}
    for needed in reader.loop.node.dependencies:
        if needed not in late:
            continue
        ours = needed.operands and needed.operands[0] is writer.loop.node
        stack = writer.written(needed["index"]) if ours else None
        reads = reader.reads(needed) if stack and needed not in reader.loop.node.operands else None
        if not stack or not reads or any(index != stack.index for index in reads.values()):
            return {}
        found |= dict.fromkeys(reads, stack.entry)
    return found if writer.loop.trips == reader.loop.trips else {}


def _with_one(
    graph: Graph, writer: CountedLoop, reader: CountedLoop, reads: Mapping[Node, Node]
) -> Graph:
    first, second = writer.node.operands[1:], reader.node.operands[1:]
    taken = {*build.results(writer.node)}
    captures = [*writer.body.captures, *(c for c in reader.body.captures if c not in taken)]

    def body(step: Node, state: tuple[Node, ...]) -> list[Node]:
        known = {capture: capture for capture in captures}
        known |= zip(writer.body.parameters, (step, *state[: len(first)]), strict=True)
        known |= zip(reader.body.parameters, (step, *state[len(first) :]), strict=True)
        entries = rebuild(reads.values(), known)
        written = rebuild(writer.body.results[1:], known)
        known |= zip(reads, entries, strict=True)
        return [*written, *rebuild(reader.body.results[1:], known)]

    outer = [*first, *second, *captures]
    final = repeat(writer.trips, [*first, *second], body, outer, writer.node.source)
    old = (*build.results(writer.node)[1:], *build.results(reader.node)[1:])
    new = dict(zip(old, final, strict=True))
    return Graph(graph.parameters, tuple(rebuild(graph.outputs, new)))
