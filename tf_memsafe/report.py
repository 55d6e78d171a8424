"""What happened to a function, to read: peaks, loops, largest tensors, what could not be cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import tensorflow as tf

from tf_memsafe import xla
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.writer import write
from tf_memsafe.limits import format_bytes
from tf_memsafe.loop_report import LoopBlockers, Recomputed, recomputed
from tf_memsafe.proof import Proof
from tf_memsafe.source import SourceLine, locate
from tf_memsafe.split.arrange import LoopPlan
from tf_memsafe.xla import ConcreteFunction

LARGEST_SHOWN = 5
"""How many of the largest tensors a report lists."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of the program: its type, its size and the user's line that made it."""

    dtype: str
    shape: tuple[int, ...]
    bytes: int
    op: str
    source: SourceLine | None

    def __str__(self) -> str:
        where = f"  {self.source}  {self.source.code}" if self.source else f"  ({self.op})"
        return f"{format_bytes(self.bytes):>10}  {self.dtype}{list(self.shape)}{where}"


@dataclass(frozen=True)
class Loop:
    """A loop over chunks: the cut axis' length, how many steps of it a chunk has, and the trips.

    tensors: what no longer exists whole.
    """

    axis_length: int
    chunk: int
    trips: int
    tensors: tuple[Tensor, ...]

    def __str__(self) -> str:
        return f"axis of {self.axis_length:,} in {self.trips:,} chunks of {self.chunk:,}"


@dataclass(frozen=True)
class Blocker:
    """A tensor that has to exist whole, and the op that needs it so."""

    tensor: Tensor
    reason: str

    def __str__(self) -> str:
        return f"{self.tensor}\n{'':12}{self.reason}"


@dataclass(frozen=True)
class Report:
    """What holding a function to a limit came to. All sizes are in bytes.

    memory_limit: None if there is none. peak_before, peak_after: arguments, results and temporaries
    as XLA's buffer assignment counts them; equal for a function that is left alone. fits: whether
    peak_after is within the limit. loops: what was cut. recomputed: which steps of the function's
    own loops are run again. largest: the largest tensors of the
    function as written. blockers: what could not be cut, and why. rewrites: the rules that fired,
    what saved most first. refusals: what looked like a rule's pattern, and why it was left alone.
    failures: why XLA could not compile programs that were made for the limit.
    stablehlo: the text of the rewritten program, or of the original where there was no need.
    """

    name: str
    memory_limit: int | None
    peak_before: int
    peak_after: int
    fits: bool
    loops: tuple[Loop, ...] = ()
    recomputed: tuple[Recomputed, ...] = ()
    largest: tuple[Tensor, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    rewrites: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    problem: str | None = None
    stablehlo: str = field(default="", repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain dicts, lists, strings and numbers, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        limit = "none" if self.memory_limit is None else format_bytes(self.memory_limit)
        yield f"{self.name}: {'fits' if self.fits else 'does not fit'}"
        yield f"  limit        {limit:>10}"
        yield f"  peak before  {format_bytes(self.peak_before):>10}"
        yield f"  peak after   {format_bytes(self.peak_after):>10}"
        if self.problem:
            yield f"  left as it is: {self.problem}"
        yield from (f"  a program was dropped: {failure}" for failure in self.failures)
        for loop in self.loops:
            yield f"  loop over an {loop}; no longer whole:"
            yield from (f"    {tensor}" for tensor in loop.tensors[:LARGEST_SHOWN])
        yield from (f"  {each}" for each in self.recomputed[:LARGEST_SHOWN])
        if not self.loops:
            yield "  largest tensors:"
            yield from (f"    {tensor}" for tensor in self.largest)
        if self.rewrites:
            yield "  rewritten:"
            yield from (f"    {rewrite}" for rewrite in self.rewrites[:LARGEST_SHOWN])
        if self.blockers:
            yield "  could not be cut:"
            yield from (f"    {blocker}" for blocker in self.blockers[:LARGEST_SHOWN])


def report_on(proof: Proof, function: ConcreteFunction) -> Report:
    """The report on a proof; `function` is what the user's source lines are found in."""
    graph = function.graph
    rewritten = proof.executable.text if proof.executable else ""
    original = write(proof.graph) if proof.graph and not rewritten else ""
    return Report(
        name=xla.name_of(function),
        memory_limit=proof.limit,
        peak_before=proof.before.peak,
        peak_after=proof.peak_after,
        fits=proof.fits,
        loops=tuple(_loops(proof, graph)),
        recomputed=tuple(recomputed(proof.split.checkpoints if proof.split else (), graph)),
        largest=tuple(_largest(_program_nodes(proof), graph)),
        blockers=tuple(_blockers(proof, graph)),
        rewrites=tuple(_rewrites(proof, graph)),
        refusals=tuple(_refusals(proof, graph)),
        failures=proof.failures,
        problem=proof.problem,
        stablehlo=rewritten or original,
    )


def limit_message(proof: Proof, function: ConcreteFunction) -> str:
    """The text of the MemoryLimitError for a proof that did not come out."""
    report = report_on(proof, function)
    limit, smallest = report.memory_limit or 0, report.peak_after
    above = f"more than the memory limit of {format_bytes(limit)} ({limit:,} bytes)."
    if proof.before.exact:
        size = f"needs at least {format_bytes(smallest)} ({smallest:,} bytes) at once"
        advice = (
            f"Try a limit of {smallest:,} bytes or more, smaller arguments or a lower precision, or"
        )
    else:
        size = f"needs about {format_bytes(smallest)} at once, and has to"
        advice = "Try a limit well above that, smaller arguments or a lower precision, or"
    lines = [f"{report.name} {size}, {above}", *_given(proof, function.graph, limit)]
    lines += [f"A program was dropped: {failure}" for failure in report.failures]
    blamed: tuple[Blocker | Tensor, ...] = report.blockers or report.largest
    lines.append("The tensors to blame:" if not report.blockers else "What has to exist whole:")
    lines += [f"  {tensor}" for tensor in blamed[:LARGEST_SHOWN]]
    lines.append(f"{advice} tf_memsafe.explain(...) for the whole picture. Nothing was allocated.")
    return "\n".join(lines)


def _given(proof: Proof, graph: tf.Graph, limit: int) -> Iterator[str]:
    """What is too large before anything is computed: the arguments, or the results with them."""
    outputs = proof.graph.outputs if proof.graph else ()
    results = dict.fromkeys(node for node in outputs if node.name != "parameter")
    argument_bytes, result_bytes = (
        sum(node.type.bytes for node in nodes) for nodes in (_arguments(proof), results)
    )
    if argument_bytes > limit:
        yield f"Its arguments alone take {format_bytes(argument_bytes)}."
    elif argument_bytes + result_bytes > limit:
        sizes = map(format_bytes, (argument_bytes, result_bytes))
        yield "Its arguments take {}, and its results {}:".format(*sizes)
        yield from (f"  {tensor}" for tensor in _largest(results, graph))


def _arguments(proof: Proof) -> tuple[Node, ...]:
    """The program's parameters, but for those that its large constants became."""
    parameters = proof.graph.parameters if proof.graph else ()
    return parameters[: len(parameters) - len(proof.constants)]


def _program_nodes(proof: Proof) -> list[Node]:
    """The nodes of the program as read: large constants are what they were."""
    if proof.graph is None:
        return []
    lifted = proof.graph.parameters[len(_arguments(proof)) :]
    constants = dict(zip(lifted, proof.constants, strict=True))
    return [constants.get(node, node) for node in topological(proof.graph.outputs)]


def _largest(nodes: Iterable[Node], graph: tf.Graph) -> list[Tensor]:
    """The largest of the tensors, one of each shape for each line of the user's code."""
    found: dict[object, Tensor] = {}
    for node in sorted(nodes, key=lambda node: -node.type.bytes):
        tensor = _tensor(node, graph)
        line = str(tensor.source) if tensor.source else tensor.op
        found.setdefault((line, tensor.shape), tensor)
        if len(found) == LARGEST_SHOWN:
            break
    return list(found.values())


def _tensor(node: Node, graph: tf.Graph) -> Tensor:
    largest = max(node.results, key=lambda result: result.bytes)
    op = f"argument {node['index']}" if node.name == "parameter" else node.name
    return Tensor(largest.dtype, largest.shape, largest.bytes, op, locate(graph, node))


def _loops(proof: Proof, graph: tf.Graph) -> Iterator[Loop]:
    if proof.split is None:
        return
    for loop, chunk in proof.split.loops:
        yield Loop(loop.steps, chunk, loop.trips(chunk), _streamed(loop, graph))


def _streamed(loop: LoopPlan, graph: tf.Graph) -> tuple[Tensor, ...]:
    return tuple(_largest(loop.streamed, graph))


def _blockers(proof: Proof, graph: tf.Graph) -> Iterator[Blocker]:
    """The blocked values that are large enough to matter, largest first."""
    loops, found = LoopBlockers(proof.graph), dict[str, Blocker]()
    for blocker in sorted(proof.blockers, key=lambda blocker: -blocker.value.type.bytes):
        own = blocker.user is blocker.value
        tensor, user = _tensor(blocker.value, graph), _tensor(blocker.user, graph)
        needs = ": no axis of it can be computed alone" if own else " needs it whole"
        reason = f"{user.op}{needs}{_at(user)}"
        if in_loop := loops.reason(blocker):
            loop, reason = in_loop
            tensor = replace(tensor, source=locate(graph, loop))
        each = Blocker(tensor, reason)
        found.setdefault(str(each), each)
    return iter(found.values())


def _rewrites(proof: Proof, graph: tf.Graph) -> Iterator[str]:
    """A line for each rule and line of the user's code, what saved most first."""
    saved = sorted(proof.rewrites, key=lambda each: each.bytes_after - each.bytes_before)
    found: dict[object, str] = {}
    for each in saved:
        text = f"{each.optimizer}: {each.summary}{_place(each.node, graph)}"
        if each.bytes_after < each.bytes_before:
            before, after = map(format_bytes, (each.bytes_before, each.bytes_after))
            found.setdefault(text, f"{text} (the largest tensor: {before}, now {after})")
        else:
            found.setdefault(text, text)
    return iter(found.values())


def _refusals(proof: Proof, graph: tf.Graph) -> Iterator[str]:
    texts = (
        f"{each.optimizer}: not {each.summary}{_place(each.node, graph)}: {each.reason}"
        for each in proof.refusals
    )
    return iter(dict.fromkeys(texts))


def _place(node: Node, graph: tf.Graph) -> str:
    return _at(_tensor(node, graph))


def _at(user: Tensor) -> str:
    return f" at {user.source}" if user.source else ""
