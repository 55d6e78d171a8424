"""Makes a report of what came of holding a function to a limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tf_memsafe import xla
from tf_memsafe.executable import compile_graph
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.writer import write
from tf_memsafe.proof import Proof
from tf_memsafe.report.content import (
    LARGEST_SHOWN,
    Blocker,
    Refused,
    Report,
    Rewritten,
    Tensor,
)
from tf_memsafe.report.loops import LoopBlockers, loops_of, recomputed, time_of
from tf_memsafe.report.program import Lines, Program, Side
from tf_memsafe.xla import ConcreteFunction


def report_on(proof: Proof, function: ConcreteFunction, keep: bool = True) -> Report:
    """The report on a proof; `function` is what the user's source lines are found in.

    keep: whether the report keeps the function's graph for the lines of its listings.
    """
    lines = Lines(function, arguments(proof), keep)
    program = _program(proof, lines)
    rewritten = proof.executable.text if proof.executable else ""
    original = write(proof.graph) if proof.graph and not rewritten else ""
    return Report(
        name=xla.name_of(function),
        memory_limit=proof.limit,
        peak_before=proof.before.peak,
        peak_after=proof.peak_after,
        fits=proof.fits,
        loops=tuple(loops_of(proof, lines)),
        recomputed=tuple(recomputed(proof, lines)),
        largest=tuple(largest(program_nodes(proof), lines)),
        left=_left(program),
        blockers=tuple(_blockers(proof, lines)),
        rewrites=tuple(_rewrites(proof, lines)),
        refusals=tuple(_refusals(proof, lines)),
        failures=proof.failures,
        problem=proof.problem,
        time=time_of(proof),
        stablehlo=rewritten or original,
        program=program,
    )


def measured(report: Report) -> Report:
    """The report with the timelines of its programs, and what the one as written needs.

    What was not compiled for that is, as it was read.
    """
    program = report.details
    if program is None:
        return report
    before, after = _with_timeline(program.before), program.after and _with_timeline(program.after)
    if before is program.before and after is program.after:
        return report
    completed = replace(program, before=before, after=after)
    peak = report.peak_before if program.before.buffers.exact else before.buffers.peak
    return replace(report, peak_before=peak, left=_left(completed), program=completed)


def _with_timeline(side: Side) -> Side:
    if side.graph is None or side.buffers.has_timeline:
        return side
    compiled = compile_graph(side.graph, side.constants)
    return replace(side, buffers=compiled.buffers, is_text=True)


def _left(program: Program) -> tuple[Tensor, ...]:
    """The largest of what the rewritten program holds at its peak."""
    return tuple(program.at_peak(program.after)[:LARGEST_SHOWN]) if program.after else ()


def _program(proof: Proof, lines: Lines) -> Program:
    used, constants = proof.executable, proof.constants
    after = Side(used.graph, used.buffers, True, constants) if used else None
    return Program(Side(proof.graph, proof.before, False, constants), after, lines)


def arguments(proof: Proof) -> tuple[Node, ...]:
    """The program's parameters, but for those that its large constants became."""
    parameters = proof.graph.parameters if proof.graph else ()
    return parameters[: len(parameters) - len(proof.constants)]


def program_nodes(proof: Proof) -> list[Node]:
    """The nodes of the program as read: large constants are what they were."""
    if proof.graph is None:
        return []
    lifted = proof.graph.parameters[len(arguments(proof)) :]
    constants = dict(zip(lifted, proof.constants, strict=True))
    return [constants.get(node, node) for node in topological(proof.graph.outputs)]


def largest(nodes: Iterable[Node], lines: Lines) -> list[Tensor]:
    """The largest of the tensors, one of each shape for each line of the user's code."""
    found: dict[object, Tensor] = {}
    for node in sorted(nodes, key=lambda node: -node.type.bytes):
        tensor = lines.tensor(node)
        line = str(tensor.source) if tensor.source else tensor.op
        found.setdefault((line, tensor.shape), tensor)
        if len(found) == LARGEST_SHOWN:
            break
    return list(found.values())


def _blockers(proof: Proof, lines: Lines) -> Iterator[Blocker]:
    """The blocked values that are large enough to matter, largest first."""
    loops, found = LoopBlockers(proof.graph), dict[str, Blocker]()
    for blocker in sorted(proof.blockers, key=lambda blocker: -blocker.value.type.bytes):
        own = blocker.user is blocker.value
        tensor, user = lines.tensor(blocker.value), lines.tensor(blocker.user)
        needs = ": no axis of it can be computed alone" if own else " needs it whole"
        reason = f"{user.op}{needs}{f' at {user.source}' if user.source else ''}"
        if in_loop := loops.reason(blocker):
            loop, reason = in_loop
            tensor = replace(tensor, source=lines(loop.source))
        each = Blocker(tensor, reason)
        found.setdefault(str(each), each)
    return iter(found.values())


def _rewrites(proof: Proof, lines: Lines) -> Iterator[Rewritten]:
    """One for each rule and line of the user's code, what saved most first."""
    found: dict[object, Rewritten] = {}
    for each in sorted(proof.rewrites, key=lambda each: each.bytes_after - each.bytes_before):
        source = lines(each.node.source)
        sizes = each.bytes_before, each.bytes_after
        rewritten = Rewritten(each.optimizer, each.summary, source, *sizes)
        found.setdefault((each.optimizer, each.summary, str(source)), rewritten)
    return iter(found.values())


def _refusals(proof: Proof, lines: Lines) -> Iterator[Refused]:
    found: dict[str, Refused] = {}
    for each in proof.refusals:
        source = lines(each.node.source)
        refused = Refused(each.optimizer, each.summary, source, each.reason)
        found.setdefault(str(refused), refused)
    return iter(found.values())


def outputs(graph: Graph | None) -> list[Node]:
    """What a program computes as results: not arguments that it hands through."""
    nodes = graph.outputs if graph else ()
    return [node for node in dict.fromkeys(nodes) if node.name != "parameter"]
