"""The programs that a report is on, as written and as run: what pictures and listings show."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import tensorflow as tf

from tf_memsafe.buffers import BufferAssignment, HeapEvent, Instruction
from tf_memsafe.captured import names_of_inputs
from tf_memsafe.hlo.node import Graph, Node, Source
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.hlo.writer import lines
from tf_memsafe.report.content import Tensor
from tf_memsafe.report.naming import accumulators, name_of_op, own_source
from tf_memsafe.report.timeline import Timeline, timeline_of
from tf_memsafe.source import SourceLine, locate
from tf_memsafe.xla import ConcreteFunction


class Lines:
    """The user's lines that a traced function's operations come from, looked up once each.

    given: the nodes of the function's inputs, in order; what follows them is passed over.
    keep: whether the function's graph, and with it the tensors that it captures, is kept alive for
    what is looked up later.
    """

    def __init__(self, function: ConcreteFunction, given: Sequence[Node], keep: bool) -> None:
        self._graph: Callable[[], tf.Graph | None] = weakref.ref(function.graph)
        self._kept = function.graph if keep else None
        self._names = dict(zip(given, names_of_inputs(function), strict=False))
        self._known: dict[Source, SourceLine | None] = {}

    def __call__(self, source: Source | None) -> SourceLine | None:
        if source is None or not source.op_name:
            return None
        graph = self._graph()
        if source not in self._known and graph is not None:
            self._known[source] = locate(graph, source)
        return self._known.get(source)

    def tensor(self, node: Node) -> Tensor:
        """A node's largest result."""
        largest = max(node.results, key=lambda result: result.bytes)
        source = self(own_source(node))
        name = self._names.get(node) or name_of_op(node)
        return Tensor(largest.dtype, largest.shape, largest.bytes, name, source)


@dataclass(frozen=True)
class Side:
    """A program, as it was written or as it is run.

    is_text: whether XLA compiled the text that is written from `graph`. constants: the large ones,
    which the graph's last parameters stand for.
    """

    graph: Graph | None
    buffers: BufferAssignment
    is_text: bool
    constants: tuple[Node, ...] = ()

    @cached_property
    def timeline(self) -> Timeline | None:
        """None if it was not compiled."""
        return timeline_of(self.buffers)

    @cached_property
    def _written(self) -> dict[int, Node]:
        return lines(self.graph) if self.graph and self.is_text else {}

    @cached_property
    def _accumulators(self) -> dict[TensorType, Source]:
        return accumulators(self.graph) if self.graph and self.is_text else {}

    @property
    def given(self) -> tuple[Node, ...]:
        """Its arguments and large constants: what is there before anything is computed."""
        parameters = self.graph.parameters if self.graph else ()
        return (*parameters[: len(parameters) - len(self.constants)], *self.constants)

    def origin(self, made: Instruction, type_: TensorType | None) -> tuple[str, Source | None]:
        """The op that an instruction comes from, and the operation of the user's function.

        type_: of the result that is meant.
        """
        node = self._written.get(made.line)
        source = own_source(node) if node else None
        if node is not None and source is not None:
            return name_of_op(node), source
        if type_ in self._accumulators:  # XLA copies what a loop begins with, and names no origin
            return "accumulator", self._accumulators[type_]
        if node is not None:
            return name_of_op(node), None
        return made.source.op_type or made.opcode, None if self.is_text else made.source


@dataclass(frozen=True)
class Program:
    """A function's program before and after, and where its lines are found.

    after: None where the function is run as it was written.
    """

    before: Side
    after: Side | None
    lines: Lines = field(repr=False)

    @property
    def used(self) -> Side:
        return self.after or self.before

    @property
    def sides(self) -> list[Side]:
        """One or two: what is run may be what was written."""
        return [self.before, self.after] if self.after else [self.before]

    def at_peak(self, side: Side) -> list[Tensor]:
        """What a program holds at its peak: the largest first."""
        taken = side.timeline.at_peak if side.timeline else ()
        tensors = [*self._given(side), *(self.buffer(side, event) for event in taken)]
        return sorted(tensors, key=lambda tensor: -tensor.bytes)

    def _given(self, side: Side) -> Iterator[Tensor]:
        """What is there throughout: arguments and results, each once."""
        if side.graph is None:
            return
        yield from map(self.lines.tensor, side.given)
        seen = {*side.graph.parameters}
        for number, node in enumerate(side.graph.outputs):
            if node not in seen:
                seen.add(node)
                yield replace(self.lines.tensor(node), op=f"result {number}")

    def buffer(self, side: Side, event: HeapEvent) -> Tensor:
        """The tensor that a buffer of a timeline holds."""
        made = side.buffers.instructions.get(event.instruction)
        type_ = made.tensor(event.bytes) if made else None
        dtype, shape = (type_.dtype, type_.shape) if type_ else ("bytes", (event.bytes,))
        op, source = side.origin(made, type_) if made else (event.instruction, None)
        return Tensor(dtype, shape, event.bytes, op, self.lines(source))
