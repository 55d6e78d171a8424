"""Moves into loops what their stacks are made of, and what is made of their stacks.

A loss over all outputs of `tf.scan` reads a whole stack, and its gradient makes another one for
the loop that goes back. Entry by entry, the loop that makes an entry can do the one (`consume`),
and the loop that needs an entry the other: then neither stack is needed whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.rebuild import rebuild
from tf_memsafe.split.consume import consume_where_made
from tf_memsafe.split.counted import counted_loops
from tf_memsafe.split.entries import FIRST_AXIS, Entries, Work, work_for
from tf_memsafe.split.stacks import LoopBody, is_loop_result
from tf_memsafe.split.steps import region, with_regions


def absorb(graph: Graph) -> Graph:
    """The same program with as little done to whole stacks as loops can do entry by entry.

    graph: with loops as `normal_loops` writes them. The graph itself if nothing can be moved.
    """
    while (smaller := _make_where_read(graph) or consume_where_made(graph)) is not None:
        graph = smaller
    return graph


def _make_where_read(graph: Graph) -> Graph | None:
    """The graph with one loop that makes the entries that it read so far; None if there is none."""
    nodes = topological(graph.outputs)
    bodies = {node: LoopBody(loop) for node, loop in counted_loops(nodes).items()}
    for node, body in bodies.items():
        for capture in body.loop.body.captures:
            reads = body.reads(capture)
            once = reads and all(index.step for index in reads.values())
            if reads and once and (work := _work(capture)):
                smaller = _reading(body, list(reads), work)
                return Graph(graph.parameters, tuple(rebuild(graph.outputs, {node: smaller})))
    return None


def _work(value: Node) -> Work | None:
    """What it takes to make an entry of a value; None if what that needs is not smaller."""
    work = work_for([(value, FIRST_AXIS)])
    there = ("parameter", "constant")
    kept = (n for n in work.around if n.name not in there and not is_loop_result(n))
    return work if work.members and sum(n.type.bytes for n in kept) <= value.type.bytes else None


def _reading(body: LoopBody, reads: Sequence[Node], work: Work) -> Node:
    """The loop, in which the entries of the last member are made where they were read."""
    loop, old = body.loop.node, body.loop.body
    known = {node: node for node in (*old.parameters, *old.captures)}
    for read in reads:
        entries = Entries(read.operands[1], {})
        entries.compute(work.members)
        known[read] = entries.part(*work.members[-1])
    outer = [*old.captures, *work.around]
    new = region(old.parameters, rebuild(old.results, known), outer)
    return with_regions(loop, (loop.regions[0], new))
