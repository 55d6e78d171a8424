"""The ops' axis rules, read forwards (result to operands) and backwards (operand to result)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.op import Contraction, Cut


@dataclass(frozen=True)
class Way:
    """How a loop of `steps` steps computes a node from chunks of its operands.

    Its chunks are concatenated along `cut` or, where that is None, combined by `contraction`.
    `operands`: the cut of each operand, None where each chunk needs it whole.
    """

    steps: int
    operands: tuple[Cut | None, ...]
    cut: Cut | None = None
    contraction: Contraction | None = None


def axis_sizes(node: Node) -> tuple[int, ...]:
    """The shape whose axes a cut of the node means; several results are cut alike."""
    return node.results[0].shape if node.results else ()


def steps_of(node: Node, cut: Cut) -> int:
    """How many steps it takes to cover the node's axis."""
    return axis_sizes(node)[cut.axis] // cut.unit


def operand_cuts(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    """What a chunk of the node needs of each operand; None if no chunk can be computed alone."""
    if node.op.effects or any(result.is_dynamic for result in node.results):
        return None
    return node.op.slice(node, cut)


def carried(user: Node, operand: Node, cut: Cut) -> Cut | None:
    """The cut of `user` whose chunks need just this cut of `operand`, if there is one."""
    steps = steps_of(operand, cut)
    for axis, size in enumerate(axis_sizes(user)):
        if size and size % steps == 0:
            candidate = Cut(axis, size // steps)
            needed = operand_cuts(user, candidate)
            if needed is not None and _agrees(user, operand, cut, needed):
                return candidate
    return None


def _agrees(user: Node, operand: Node, cut: Cut, needed: tuple[Cut | None, ...]) -> bool:
    return any(
        wanted == cut
        for candidate, wanted in zip(user.operands, needed, strict=True)
        if candidate is operand
    )


def ways(node: Node, steps: int) -> Iterator[Way]:
    """All ways a loop of `steps` steps can compute the node."""
    for axis, size in enumerate(axis_sizes(node)):
        if size and size % steps == 0:
            cut = Cut(axis, size // steps)
            needed = operand_cuts(node, cut)
            if needed is not None:
                yield Way(steps, needed, cut)
    for contraction in node.op.contract(node):
        cuts = _contracted_cuts(node, contraction, steps)
        if cuts is not None:
            yield Way(steps, cuts, contraction=contraction)


def _contracted_cuts(
    node: Node, contraction: Contraction, steps: int
) -> tuple[Cut | None, ...] | None:
    cuts: list[Cut | None] = []
    for operand, axis in zip(node.operands, contraction.axes, strict=True):
        if axis is None:
            cuts.append(None)
            continue
        size = operand.shape[axis]
        if not size or size % steps:
            return None
        cuts.append(Cut(axis, size // steps))
    return tuple(cuts)
