"""From a concrete function and a limit to a program that is proved to fit, or to why there is none.

Read the HLO; if XLA's own buffer assignment is above the limit, plan, write and compile (without
running) until one program's assignment is not.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

from tf_memsafe import xla
from tf_memsafe.buffers import BufferAssignment
from tf_memsafe.hlo.build import NUMPY_DTYPES
from tf_memsafe.hlo.large_constants import lift_large_constants
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.op import UnsupportedOpError
from tf_memsafe.hlo.ops.structure import literal
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.reader import read
from tf_memsafe.hlo.simplify import simplify
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.hlo.verify import verify
from tf_memsafe.hlo.writer import write
from tf_memsafe.machine import free_memory
from tf_memsafe.rewrite.driver import Refusal, Rewrite
from tf_memsafe.rewrite.options import get_optimizer_options
from tf_memsafe.rewrite.pipeline import rewrite
from tf_memsafe.split.checkpoint import checkpoint_loops
from tf_memsafe.split.liveness import bound_peak, estimate_peak
from tf_memsafe.split.plan import (
    Blocker,
    Plan,
    SplitGraph,
    best_cut,
    unavoidable,
    write_plan,
)
from tf_memsafe.xla import ConcreteFunction

MOST_COMPILES = 3
"""How many programs are compiled before a limit is given up on."""

MARGIN = 0.97
"""How much of the room that is left a program is planned for after its estimate was too low."""


@dataclass(frozen=True)
class Executable:
    """A program that runs on flat values: StableHLO text, compiled, and its large constants."""

    text: str
    function: ConcreteFunction
    constants: tuple[tf.Tensor, ...]
    buffers: BufferAssignment

    def __call__(self, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        return xla.call_inference(self.function, [*values, *self.constants])


@dataclass(frozen=True)
class Proof:
    """What came of holding a function to a limit.

    graph: the program as read; None if it could not be (`problem` says why).
    before: its buffers as the user wrote it. updates: the variables' parameters, by extra output.
    split, executable: the best program found and its plan; None where none was needed or possible.
    blockers: what could not be cut. rewrites, refusals: the rules that fired, and that did not.
    """

    limit: int | None
    before: BufferAssignment
    graph: Graph | None = None
    constants: tuple[Node, ...] = ()
    updates: tuple[tuple[int, int], ...] = ()
    split: SplitGraph | None = None
    executable: Executable | None = None
    blockers: tuple[Blocker, ...] = ()
    rewrites: tuple[Rewrite, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    problem: str | None = None

    @property
    def fits_as_written(self) -> bool:
        return self.limit is None or self.before.peak <= self.limit

    @property
    def smallest_peak(self) -> int:
        """Bytes of the best program found."""
        return self.executable.buffers.peak if self.executable else self.before.peak

    @property
    def fits(self) -> bool:
        return self.limit is None or self.smallest_peak <= self.limit

    @property
    def has_effects(self) -> bool:
        return self.graph is not None and any(
            node.op.effects for node in topological(self.graph.outputs)
        )


def prove(
    function: ConcreteFunction,
    specs: Sequence[tf.TensorSpec],
    limit: int | None,
    bound_is_enough: bool = False,
) -> Proof:
    """Holds the function, for arguments of these shapes, to `limit` bytes.

    bound_is_enough: take the function to fit, uncompiled, if an upper bound of its peak is within
    the limit; `before` is then that bound.

    Raises xla.XlaCompileError when XLA cannot compile the function as the user wrote it.
    """
    try:
        proof = _read(function, specs, limit)
    except UnsupportedOpError as error:
        return Proof(limit, xla.measure(function, specs), problem=str(error))
    graph = proof.graph
    if graph is None or limit is None:
        return replace(proof, before=xla.measure(function, specs))
    if bound_is_enough and (bound := bound_peak(graph)) <= limit:
        return replace(proof, before=BufferAssignment.estimated(bound))
    rewritten = rewrite(graph, get_optimizer_options())
    uncut = checkpoint_loops(rewritten.graph, limit)
    if blockers := unavoidable(uncut, max(limit, free_memory())):
        # XLA can take hours to compile a program that this machine could never run.
        before = BufferAssignment.estimated(estimate_peak(graph))
        return replace(proof, before=before, blockers=blockers)
    proof = replace(proof, before=xla.measure(function, specs))
    if proof.fits_as_written:
        return proof
    proof = replace(proof, rewrites=rewritten.rewrites, refusals=rewritten.refusals)
    return _search(proof, rewritten.graph, limit)


def _read(function: ConcreteFunction, specs: Sequence[tf.TensorSpec], limit: int | None) -> Proof:
    """The proof so far: the graph, or why there is none."""
    module = xla.hlo_module(function, specs)
    graph = simplify(read(module))
    verify(graph)
    graph, constants = lift_large_constants(graph)
    updates = tuple(xla.variable_updates(module).items())
    unknown = BufferAssignment.estimated(0)
    if len(graph.outputs) != len(xla.result_specs(function)) + len(updates):
        return Proof(limit, unknown, problem="it has results that are not returned or assigned")
    return Proof(limit, unknown, graph, constants, updates)


def _search(proof: Proof, graph: Graph, limit: int) -> Proof:
    """The proof with the first program that fits, else with the smallest that there is."""
    uncut = write_plan(Plan(graph, (), ()), limit)
    smaller = any(each.bytes_after < each.bytes_before for each in proof.rewrites)
    if smaller and uncut.estimate <= limit:
        _, proof = _try(proof, uncut)
        if proof.fits:
            return proof
    if (checkpointed := _checkpointed(graph, limit)) and checkpointed.estimate <= 2 * limit:
        # The estimate of what loops need is often too high, and cutting more can cost memory.
        _, proof = _try(proof, checkpointed)
        if proof.fits:
            return proof
    fusing = uncut.estimate > limit  # if not, XLA fuses less of this than it mostly does
    target, tried = limit, set[Graph]()
    for _ in range(MOST_COMPILES):
        split = best_cut(graph, target, fusing)
        if split is None or split.graph in tried:
            break
        tried.add(split.graph)
        peak, proof = _try(proof, split)
        if proof.fits:
            return proof
        if fusing and peak > 2 * split.estimate:
            fusing, target = False, limit
        else:
            target = _lower(target, split, peak, limit)
    return _smallest(proof, graph, tried)


def _checkpointed(graph: Graph, limit: int) -> SplitGraph | None:
    """The graph with its loops' steps computed again but nothing cut; None if that is no help."""
    checkpointed = checkpoint_loops(graph, limit)
    return None if checkpointed is graph else write_plan(Plan(checkpointed, (), ()), limit)


def _smallest(proof: Proof, graph: Graph, tried: Collection[Graph]) -> Proof:
    """The proof with the program that needs least, whatever the limit: that need is then true."""
    for split in (_checkpointed(graph, 0), best_cut(graph, 0, True), best_cut(graph, 0, False)):
        if split is not None and split.graph not in tried:
            _, proof = _try(proof, split)
    if proof.rewrites and proof.executable is None:
        _, uncut = _try(proof, write_plan(Plan(graph, (), ()), 0))
        proof = replace(uncut, blockers=proof.blockers)
    return proof


def _lower(target: int, split: SplitGraph, peak: int, limit: int) -> int:
    """What to plan for next: less by as much as the estimate of the temporaries was too low."""
    types = [*split.graph.types, *(output.tensor for output in split.graph.outputs)]
    given = sum(type_.bytes for type_ in types)
    share = MARGIN * max(0, limit - given) / max(1, peak - given)
    return min(target - 1, given + int(max(0, split.estimate - given) * share))


def _try(proof: Proof, split: SplitGraph) -> tuple[int, Proof]:
    """The peak of a program, and the proof with that program if it is the smallest so far."""
    executable = compile_graph(split.graph, proof.constants)
    peak = executable.buffers.peak
    proof = replace(proof, blockers=split.plan.blockers)
    if peak < proof.smallest_peak:
        proof = replace(proof, split=split, executable=executable)
    return peak, proof


def compile_graph(graph: Graph, constants: Sequence[Node] = ()) -> Executable:
    """Writes and compiles a graph whose last parameters are these large constants."""
    verify(graph)
    inputs = [tensor_spec(type_) for type_ in graph.types]
    outputs = [tensor_spec(output.tensor) for output in graph.outputs]
    text = write(graph)
    function = xla.stablehlo_function(text, inputs, outputs)
    tensors = tuple(
        tf.constant(np.reshape(literal(constant), constant.shape)) for constant in constants
    )
    return Executable(text, function, tensors, xla.measure(function, inputs))


def tensor_spec(type_: TensorType) -> tf.TensorSpec:
    return tf.TensorSpec(type_.shape, tf.as_dtype(NUMPY_DTYPES[type_.dtype]))
