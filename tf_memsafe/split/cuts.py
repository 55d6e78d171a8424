"""The ops' axis rules, read forwards (result to operands) and backwards (operand to result)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.op import Contraction, Cut


class Span(NamedTuple):
    """The steps of a loop from `first` on, without `stop`."""

    first: int
    stop: int

    @property
    def steps(self) -> int:
        return self.stop - self.first


class Way(NamedTuple):
    """How a loop over the steps of `span` computes a node from chunks of its operands.

    Its chunks are concatenated along `cut` or, where that is None, combined by `contraction`.
    `operands`: the cut of each operand, None where each chunk needs it whole.
    """

    span: Span
    operands: tuple[Cut | None, ...]
    cut: Cut | None = None
    contraction: Contraction | None = None


def axis_sizes(node: Node) -> tuple[int, ...]:
    """The shape whose axes a cut of the node means; several results are cut alike."""
    return node.results[0].shape if node.results else ()


def steps_of(node: Node, cut: Cut) -> int:
    """How many steps it takes to cover the node's axis."""
    return axis_sizes(node)[cut.axis] // cut.unit


def span_of(node: Node, cut: Cut) -> Span:
    """The steps that cover the node's axis."""
    return Span(cut.first, cut.first + steps_of(node, cut))


Request = tuple[Node, Cut]
"""A value wanted in chunks of this cut."""

Asked = tuple[Node, Cut | None, Span]
"""A value wanted whole, or in chunks of this cut, for these steps of a loop."""


def operand_cuts(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    """What a chunk of the node needs of each operand; None if no chunk can be computed alone."""
    way = _way_along(node, cut)
    return None if way is None else way.operands


def way_along(node: Node, cut: Cut) -> Way:
    """The way that computes the node in chunks of a cut that can be computed alone."""
    way = _way_along(node, cut)
    assert way is not None, f"{node} cannot be cut along {cut}"
    return way


def _way_along(node: Node, cut: Cut) -> Way | None:
    # Planning asks the same many times over.
    known = node.remembered
    if cut not in known:
        dynamic = any(result.is_dynamic for result in node.results)
        needed = None if node.op.effects or dynamic else node.op.slice(node, cut)
        known[cut] = None if needed is None else Way(span_of(node, cut), needed, cut)
    return known[cut]


def pieces(node: Node, cut: Cut) -> list[tuple[Span, int]]:
    """The steps in which the node comes from one operand alone, with that operand's index."""
    found, first = [], cut.first
    for piece in node.op.pieces(node, cut):
        stop = first + piece.size // cut.unit
        found.append((Span(first, stop), piece.operand))
        first = stop
    return found


def requests(node: Node, cut: Cut | None, needed: Sequence[Cut | None], span: Span) -> list[Asked]:
    """What the steps of a span need of each operand, and in which of the steps."""
    if not span.steps:
        return []
    runs = pieces(node, cut) if cut is not None else []
    if not runs:
        return list(zip(node.operands, needed, repeat(span, len(needed)), strict=True))
    both = [(Span(max(run.first, span.first), min(run.stop, span.stop)), at) for run, at in runs]
    return [(node.operands[at], needed[at], active) for active, at in both if active.steps > 0]


def carried(user: Node, operand: Node, cut: Cut) -> Cut | None:
    """The cut of `user` whose chunks need just this cut of `operand`, if there is one."""
    for candidate, needed in _candidates(user, operand, cut):
        if (shift := _shift(user, operand, cut, needed)) is not None:
            return candidate._replace(first=shift)
    return None


def ways(node: Node, operand: Node, cut: Cut) -> Iterator[Way]:
    """All ways of as many steps as a cut of its operand takes, or of steps of the same size."""
    for candidate, needed in _candidates(node, operand, cut):
        shifted = candidate._replace(first=_shift(node, operand, cut, needed) or 0)
        yield way_along(node, shifted)
    for contraction in node.op.contract(node):
        way = _contracting(node, contraction, operand, cut)
        if way is not None:
            yield way


def _candidates(
    user: Node, operand: Node, cut: Cut
) -> Iterator[tuple[Cut, tuple[Cut | None, ...]]]:
    """Cuts of the user into as many steps or steps of the same size, with what each needs."""
    steps = steps_of(operand, cut)
    for axis, size in enumerate(axis_sizes(user)):
        units = [size // steps] if steps and size % steps == 0 else []
        units += [cut.unit] if size % cut.unit == 0 else []
        for unit in dict.fromkeys(units):
            candidate = Cut(axis, unit)
            needed = operand_cuts(user, candidate) if size else None
            if needed is not None:
                yield candidate, needed


def _shift(user: Node, operand: Node, cut: Cut, needed: tuple[Cut | None, ...]) -> int | None:
    """Where a user's axis has to begin so that it needs this cut of the operand.

    needed: of each operand, if the user's axis begins at step 0.
    """
    for candidate, wanted in zip(user.operands, needed, strict=True):
        if candidate is operand and wanted is not None and wanted[:2] == cut[:2]:
            return cut.first - wanted.first
    return None


def _contracting(node: Node, contraction: Contraction, operand: Node, cut: Cut) -> Way | None:
    """The way that combines chunks: those of the operand's cut, or of as many steps."""
    axes = list(zip(node.operands, contraction.axes, strict=True))
    (length,) = {each.shape[axis] for each, axis in axes if axis is not None}
    agrees = any(each is operand and axis == cut.axis for each, axis in axes)
    steps = steps_of(operand, cut)
    if not length or (not agrees and length % steps):
        return None
    unit, first = (cut.unit, cut.first) if agrees else (length // steps, 0)
    cuts = tuple(None if axis is None else Cut(axis, unit, first) for _, axis in axes)
    return Way(Span(first, first + length // unit), cuts, contraction=contraction)
