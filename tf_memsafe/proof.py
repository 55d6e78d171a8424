"""From a concrete function and a limit to a program that is proved to fit, or to why there is none.

Read the HLO; if XLA's own buffer assignment is above the limit, or an estimate far above it, plan,
write and compile (without running) until one program's assignment is not. If it is not above the
limit, a rewritten program may still be clearly faster or smaller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import tensorflow as tf

from tf_memsafe import devices, xla
from tf_memsafe.buffers import BufferAssignment
from tf_memsafe.executable import Executable, compile_graph
from tf_memsafe.hlo.garbage import collector_paused
from tf_memsafe.hlo.large_constants import lift_large_constants
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.op import UnsupportedOpError
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.reader import read, variable_updates
from tf_memsafe.hlo.simplify import simplify
from tf_memsafe.hlo.verify import verify
from tf_memsafe.progress import stage
from tf_memsafe.reasons import OTHER_RESULTS, unknown
from tf_memsafe.rewrite.canonical import CANONICAL
from tf_memsafe.rewrite.canonical_order import with_top_k
from tf_memsafe.rewrite.driver import Refusal, Rewrite, Rewritten
from tf_memsafe.rewrite.pipeline import finish, rewrite
from tf_memsafe.search import Compile, Finish, Search
from tf_memsafe.split.checkpoint import checkpoint_loops
from tf_memsafe.split.cost import cost
from tf_memsafe.split.liveness import bound_peak, estimate_peak
from tf_memsafe.split.plan import Blocker, SplitGraph, unavoidable
from tf_memsafe.split.target import CPU, GPU
from tf_memsafe.xla import ConcreteFunction, XlaCompileError

MOST_COMPILED = 10_000_000_000
"""Bytes of a value above which a program that cannot do without it is not compiled for a figure.

XLA compiles a Cholesky factor for a time that grows with its rows: minutes at this size, and far
more at a million rows. The number is the same on every machine, so that the answer is.
"""

CLEARLY_ABOVE = 2
"""How many times a limit the estimate has to be for a call not to compile the function as written.

To compile it takes as long as to compile its replacement, which computes the same within the limit
even where the estimate is so far too high that the function would have fit.
"""

CLEAR_SAVING = 0.8
"""The share of the estimated time or peak that a program that fits has to be rewritten to.

The estimates rank programs; they are not exact enough to tell apart those that differ by less.
"""

LEAST_SAVING = 1_000_000
"""Flops, or bytes of traffic, that rewriting a program that fits has to save in each call.

What a call of a rewritten program spends more in Python is less than that.
"""


Updates: TypeAlias = tuple[tuple[int, int], ...]
"""The outputs that are assigned to variables, each with the parameter that the variable is."""


@dataclass(frozen=True)
class Proof:
    """What came of holding a function to a limit.

    graph: the program as read; None if it could not be (`problem` says why).
    before: its buffers as the user wrote it. updates: the variables' parameters, by extra output.
    executable: the program that is used in its place, or the smallest there is if that is still too
    large; None where the user's own is used. split: its plan, if it was planned for the limit.
    blockers: what could not be cut. rewrites, refusals: the rules that fired, and that did not.
    failures: why XLA could not compile some of the programs that were made.
    """

    limit: int | None
    before: BufferAssignment
    graph: Graph | None = None
    constants: tuple[Node, ...] = ()
    updates: Updates = ()
    split: SplitGraph | None = None
    executable: Executable | None = None
    blockers: tuple[Blocker, ...] = ()
    rewrites: tuple[Rewrite, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    failures: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def fits_as_written(self) -> bool:
        return self.limit is None or self.before.peak <= self.limit

    @property
    def peak_after(self) -> int:
        """Bytes of the program that is used, or of the smallest that was found."""
        return self.executable.peak if self.executable else self.before.peak

    @property
    def fits(self) -> bool:
        return self.limit is None or self.peak_after <= self.limit

    @property
    def has_effects(self) -> bool:
        return self.graph is not None and any(
            node.op.effects for node in topological(self.graph.outputs)
        )


@collector_paused()
def prove(
    function: ConcreteFunction,
    specs: Sequence[tf.TensorSpec],
    limit: int | None,
    optimizers: Mapping[str, bool],
    for_calls: bool = False,
) -> Proof:
    """Holds the function, for arguments of these shapes, to `limit` bytes.

    optimizers: whether each is on, by name. for_calls: let calls find the program compiled, and
    take the function to fit, uncompiled, if an upper bound of its peak is within the limit, and not
    to, if an estimate of it is clearly above; `before` is then that bound, or estimate.

    Raises xla.XlaCompileError when XLA cannot compile the function as the user wrote it.
    """
    try:
        proof = _read(function, specs, limit)
    except UnsupportedOpError as error:
        problem = unknown(error, function.graph)
        return Proof(limit, _measure(function, specs), problem=problem)
    graph = proof.graph
    if graph is None or limit is None:
        return replace(proof, before=_measure(function, specs))
    rewritten = rewrite(graph, optimizers)
    last = partial(finish, enabled=optimizers, device=devices.current_type())
    compiled = partial(compile_graph, constants=proof.constants, for_calls=for_calls)
    search, by_xla = _searching(proof, rewritten, last, compiled), xla.must_compile(function)
    if for_calls and (bound := bound_peak(graph)) <= limit:
        proof = replace(proof, before=BufferAssignment.estimated(bound))
        return _improve(proof, rewritten, last, compiled) if by_xla else proof
    uncut = checkpoint_loops(rewritten.graph, limit).graph
    if blockers := unavoidable(uncut, max(limit, MOST_COMPILED)):
        before = BufferAssignment.estimated(estimate_peak(graph))
        return replace(proof, before=before, blockers=blockers)
    if for_calls and (estimate := estimate_peak(graph)) > CLEARLY_ABOVE * limit:
        estimated = replace(proof, before=BufferAssignment.estimated(estimate))
        searched = _search(estimated, rewritten, search, as_written=False)
        if searched.executable is not None and searched.fits:
            return searched
    proof = replace(proof, before=_measure(function, specs))
    if proof.fits_as_written:
        proof = _improve(proof, rewritten, last, compiled)
    if by_xla:
        return proof if proof.fits_as_written else _search(proof, rewritten, search)
    return _without_xla(proof, limit, rewritten, search, compiled)


def _without_xla(
    proof: Proof, limit: int, rewritten: Rewritten, search: Search, compiled: Compile
) -> Proof:
    """The proof for a function that XLA would not compile: as it is written it may need more.

    The program as it was read is run in its place, if that fits. XLA may lay it out otherwise.
    """
    if proof.executable is not None:
        return proof
    graph = proof.graph
    assert graph is not None
    as_read = compiled(graph) if proof.fits_as_written else None
    if as_read is not None and as_read.peak <= limit:
        return replace(proof, executable=as_read)
    searched = _search(proof, rewritten, search, as_written=False)
    if searched.executable is not None and searched.fits:
        return searched
    as_read = as_read or compiled(graph)
    if searched.executable is not None and searched.executable.peak <= as_read.peak:
        return searched
    return replace(searched, executable=as_read, split=None)


@stage("compiling")
def _measure(function: ConcreteFunction, specs: Sequence[tf.TensorSpec]) -> BufferAssignment:
    """The buffers of the function as it is written."""
    return xla.measure(function, specs)


@stage("reading")
def _read(function: ConcreteFunction, specs: Sequence[tf.TensorSpec], limit: int | None) -> Proof:
    """The proof so far: the graph, or why there is none."""
    module = xla.hlo_module(function, specs)
    graph = simplify(read(module))
    verify(graph)
    graph, constants = lift_large_constants(graph)
    updates = tuple(variable_updates(module).items())
    unknown = BufferAssignment.estimated(0)
    if len(graph.outputs) != len(xla.result_specs(function)) + len(updates):
        return Proof(limit, unknown, problem=OTHER_RESULTS)
    return Proof(limit, unknown, graph, constants, updates)


# --- functions that fit ---


def _improve(proof: Proof, rewritten: Rewritten, last: Finish, compiled: Compile) -> Proof:
    """The proof with the rewritten program, if that pays and is within the limit, too."""
    graph = proof.graph
    assert graph is not None
    rewritten = last(rewritten.graph).after(rewritten)
    proof = replace(proof, refusals=rewritten.refusals)
    if proof.has_effects or not _pays(graph, rewritten):
        return proof
    try:
        executable = compiled(rewritten.graph)
    except XlaCompileError as error:
        return replace(proof, failures=(str(error),))
    better = replace(proof, executable=executable, rewrites=rewritten.rewrites)
    return better if better.fits else proof


def _pays(graph: Graph, rewritten: Rewritten) -> bool:
    """Whether rewriting saves time, or memory at no cost in time; XLA has a canonical form, too."""
    if all(each.optimizer == CANONICAL.name for each in rewritten.rewrites):
        return False
    costs = cost(with_top_k(graph), ()), cost(rewritten.graph, ())
    peaks = estimate_peak(graph), estimate_peak(rewritten.graph)
    return _is_clear(*costs) or (costs[1] <= costs[0] and _is_clear(*peaks))


def _is_clear(before: int, after: int) -> bool:
    return after <= CLEAR_SAVING * before and before - after >= LEAST_SAVING


# --- functions that do not ---


def _searching(proof: Proof, rewritten: Rewritten, last: Finish, compiled: Compile) -> Search:
    """What looks for programs that fit, and compiles none twice."""
    smaller = any(each.bytes_after < each.bytes_before for each in rewritten.rewrites)
    device = CPU if devices.current_type() == "CPU" else GPU
    return Search(rewritten.graph, smaller, last, compiled, device)


@stage("planning")
def _search(proof: Proof, rewritten: Rewritten, search: Search, as_written: bool = True) -> Proof:
    """The proof with the first program that fits, else with the smallest that there is.

    as_written: whether the user's own program is one of them.
    """
    assert proof.limit is not None
    found = search.run(proof.limit)
    if found is not None:
        rewritten = found.finished.after(rewritten)
        if not as_written or found.peak < proof.peak_after:
            proof = replace(proof, split=found.split, executable=found.executable)
    return replace(
        proof,
        blockers=_blockers(proof, search),
        rewrites=rewritten.rewrites,
        refusals=rewritten.refusals,
        failures=tuple(search.failures),
    )


def _blockers(proof: Proof, search: Search) -> tuple[Blocker, ...]:
    """What was not cut: in the program that fits, or in the one that was to need least."""
    split = proof.split if proof.fits else search.floor
    found = split.plan.blockers if split else ()
    return found or unavoidable(split.plan.graph if split else search.graph, proof.limit or 0)
