"""The text of a MemoryLimitError: what is too large, how large, where, and what to try."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tf_memsafe.hlo.node import Node
from tf_memsafe.limits import format_bytes
from tf_memsafe.proof import Proof
from tf_memsafe.report.content import LARGEST_SHOWN, Blocker, Report, Tensor
from tf_memsafe.report.make import arguments, largest, outputs, report_on
from tf_memsafe.report.program import Lines
from tf_memsafe.xla import ConcreteFunction

WORTH_A_LOOK = 1000
"""How many times smaller than the largest a tensor may be that is named in an error."""


def limit_message(proof: Proof, function: ConcreteFunction) -> str:
    """The text of the MemoryLimitError for a proof that did not come out."""
    report = report_on(proof, function)
    lines = [_sizes(proof, report), *_given(proof, Lines(function, arguments(proof), True))]
    lines += [f"A program was dropped: {failure}" for failure in report.failures]
    blamed: Sequence[Blocker | Tensor] = report.blockers or _large(report.largest)
    lines.append("The tensors to blame:" if not report.blockers else "What has to exist whole:")
    lines += [f"  {tensor}" for tensor in blamed[:LARGEST_SHOWN]]
    rest = "or tf_memsafe.explain(...) for the whole picture. Nothing was allocated."
    return "\n".join([*lines, f"{_advice(proof)}, {rest}"])


def _large(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Those, of tensors in the order of their sizes, that are worth a look beside the largest."""
    return [tensor for tensor in tensors if tensor.bytes * WORTH_A_LOOK >= tensors[0].bytes]


def _sizes(proof: Proof, report: Report) -> str:
    limit, smallest = report.memory_limit or 0, report.peak_after
    above = f"more than the memory limit of {format_bytes(limit)} ({limit:,} bytes)"
    if not proof.before.exact:
        return f"{report.name} needs about {format_bytes(smallest)} at once, {above}."
    size = f"{format_bytes(smallest)} ({smallest:,} bytes)"
    return f"{report.name} needs at least {size} at once, {above}."


def _advice(proof: Proof) -> str:
    """What to try: first a limit, then what helps against what is too large."""
    limit = f"of {proof.peak_after:,} bytes or more" if proof.before.exact else "well above that"
    given, results = _bytes(arguments(proof)), _bytes(outputs(proof.graph))
    is_result = given <= (proof.limit or 0) < given + results
    size = "smaller results (a sum, say, of what is returned)" if is_result else "smaller arguments"
    blocked = {blocker.user.name for blocker in proof.blockers}
    known = dict.fromkeys(remedy for name, remedy in REMEDIES.items() if name in blocked)
    return f"Try a limit {', '.join([limit, size, *known, 'a lower precision'])}"


REMEDIES = {
    "cholesky": "a smaller matrix to factor (of inducing points, say)",
    "custom_call": "a smaller matrix to factor (of inducing points, say)",
    "triangular_solve": "a smaller matrix to solve with (of inducing points, say)",
    "sort": "tf.math.top_k in place of the sort",
    "rng": "fewer random numbers in one call",
    "rng_bit_generator": "fewer random numbers in one call",
    "while": "a loop that carries less, or fewer steps of it",
}
"""What to do without a value that has to exist whole, by the op that needs it so."""


def _given(proof: Proof, lines: Lines) -> Iterator[str]:
    """What is too large before anything is computed: the arguments, or the results with them."""
    limit, results = proof.limit or 0, outputs(proof.graph)
    given, made = _bytes(arguments(proof)), _bytes(results)
    if given > limit:
        yield f"Its arguments alone take {format_bytes(given)}."
    elif given + made > limit:
        sizes = map(format_bytes, (given, made))
        yield "Its arguments take {}, and its results {}:".format(*sizes)
        yield from (f"  {tensor}" for tensor in largest(results, lines))


def _bytes(nodes: Iterable[Node]) -> int:
    return sum(node.type.bytes for node in nodes)
