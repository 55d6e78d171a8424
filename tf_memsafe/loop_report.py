"""What a report says of a function's own loops: what they run again, and what they have to keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import tensorflow as tf

from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.source import SourceLine, locate
from tf_memsafe.split.checkpoint import Checkpoint
from tf_memsafe.split.normal import normal_loops
from tf_memsafe.split.plan import Blocker
from tf_memsafe.split.sweeps import KeptStack, kept_stacks


@dataclass(frozen=True)
class Recomputed:
    """Steps of a user's loop that are run again, in place of keeping what each of them made.

    trips: the loop's steps. kept: its state is kept once in so many steps; in a segment that is run
    again, once in the next number; and so on. Empty if nothing of a step has to be kept. again: how
    many steps are run again.
    """

    source: SourceLine | None
    trips: int
    kept: tuple[int, ...]
    again: int

    def __str__(self) -> str:
        once = ", then ".join("every step" if n == 1 else f"1 in {n:,}" for n in self.kept)
        where = f" at {self.source}" if self.source else ""
        kept = f"keeps its state of {once}" if once else "keeps nothing of its steps"
        return f"a loop of {self.trips:,} steps{where} {kept}, and runs {self.again:,} again"


def recomputed(checkpoints: Sequence[Checkpoint], graph: tf.Graph) -> Iterator[Recomputed]:
    """What is run again; `graph` is what the user's lines are found in."""
    for each in checkpoints:
        kept = each.parts if each.has_state else ()
        yield Recomputed(locate(graph, each.loops[0]), each.trips, kept, each.again)


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
