"""What a report says of loops: those that were made, and the function's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tf_memsafe import devices
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.order import topological
from tf_memsafe.proof import Proof
from tf_memsafe.report.content import LARGEST_SHOWN, Loop, Recomputed, Tensor
from tf_memsafe.report.program import Lines
from tf_memsafe.rewrite.canonical_order import with_top_k
from tf_memsafe.split.arrange import LoopPlan
from tf_memsafe.split.cost import cost
from tf_memsafe.split.normal import normal_loops
from tf_memsafe.split.plan import Blocker
from tf_memsafe.split.sweeps import KeptStack, kept_stacks
from tf_memsafe.split.target import CPU, GPU


def loops_of(proof: Proof, lines: Lines) -> Iterator[Loop]:
    """The loops that a plan made, the outer ones first; what takes one trip is no loop."""
    if proof.split is None:
        return
    total = sum(node.op.flops(node) for node in topological(proof.split.plan.graph.outputs))
    computed: set[Node] = set()
    for loop, chunk in proof.split.loops:
        again = sum(node.op.flops(node) for node in loop.streamed if node in computed)
        computed.update(loop.computed)
        if (trips := loop.trips(chunk)) > 1:
            tensors, axis = _streamed(loop, lines)
            yield Loop(loop.steps, chunk, trips, tensors, axis, again / max(1, total))


def _streamed(loop: LoopPlan, lines: Lines) -> tuple[tuple[Tensor, ...], int | None]:
    """The largest tensors that a loop has in chunks, and the cut axis of the first."""
    members = sorted(loop.members, key=lambda member: -member[0].type.bytes)
    found: dict[object, Tensor] = {}
    for node, _ in members:
        tensor = lines.tensor(node)
        line = str(tensor.source) if tensor.source else tensor.op
        found.setdefault((line, tensor.shape), tensor)
        if len(found) == LARGEST_SHOWN:
            break
    return tuple(found.values()), members[0][1].axis if members else None


LEAST_TIMED = 1000
"""How many times as long as starting a kernel a function takes at least whose time is estimated."""

EVERYTHING = 2**63
"""Bytes of a cache that holds all values.

What XLA fuses moves less than the planner counts. What is computed tells more: its ratio, which
benchmarks/split_cost.py prints beside the measured one, is that or up to 2.5 times as much.
"""


def time_of(proof: Proof) -> float | None:
    """An estimate of the time, over that of the function as written: of all that is computed.

    There is none for a program that is not used; for those with loops of their own, whose steps the
    planner does not count; for loops that were cut again inside; nor for small functions, whose
    time goes elsewhere.
    """
    used, graph, split = proof.executable, proof.graph, proof.split
    if used is None or graph is None or not proof.fits or (split and split.inner):
        return None
    if "while" in {node.name for node in topological(graph.outputs)}:
        return None
    device = replace(CPU if devices.current_type() == "CPU" else GPU, cache_bytes=EVERYTHING)
    before = cost(with_top_k(graph), (), device)
    if before < LEAST_TIMED * device.launch:
        return None
    after = cost(split.plan.graph, split.loops, device) if split else cost(used.graph, (), device)
    return after / before


def recomputed(proof: Proof, lines: Lines) -> Iterator[Recomputed]:
    """The steps of the function's own loops that are run again."""
    for each in proof.split.checkpoints if proof.split else ():
        kept = each.parts if each.has_state else ()
        yield Recomputed(lines(each.loops[0].source), each.trips, kept, each.again)


class LoopBlockers:
    """Why loops of a program, as it was read, keep what they fill."""

    def __init__(self, graph: Graph | None) -> None:
        stacks = kept_stacks(normal_loops(graph)) if graph else []
        self._kept = {(stack.loop.source, stack.type): stack for stack in stacks}

    def reason(self, blocker: Blocker) -> tuple[Node, str] | None:
        """The loop that a value belongs to and why it is whole; None if it belongs to none."""
        value = blocker.value
        around = value.operands[0] if value.name == "get_tuple_element" else value
        loops = [node for node in (around, blocker.user) if node.name == "while"]
        for loop in loops:
            if stack := self._stack(loop, value):
                return stack.loop, f"a loop fills it and keeps it whole: {stack.reason}"
        return (loops[0], "a loop carries it from step to step") if loops else None

    def _stack(self, loop: Node, value: Node) -> KeptStack | None:
        largest = max(value.results, key=lambda result: result.bytes)
        return self._kept.get((loop.source, largest))
