"""Loops, branches and barriers."""

from __future__ import annotations

from collections.abc import Sequence

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Attributes, Node, Region
from tf_memsafe.hlo.op import Op, register
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.types import Type


def _infer_while(
    operands: Sequence[Node], _attributes: Attributes, regions: Sequence[Region], _declared: object
) -> Type:
    _, body = regions
    state = [operand.type for operand in operands]
    if state != [result.type for result in body.results]:
        raise TypeError("a loop's body has to return values of the types it takes")
    return build.tuple_or_single([operand.tensor for operand in operands])


def _infer_branches(
    _operands: object, _attributes: Attributes, regions: Sequence[Region], _declared: object
) -> Type:
    types = [[result.tensor for result in region.results] for region in regions]
    if any(branch != types[0] for branch in types):
        raise TypeError("the branches of a conditional have to return values of the same types")
    return build.tuple_or_single(types[0])


def _infer_barrier(
    operands: Sequence[Node], _attributes: Attributes, _regions: object, _declared: object
) -> Type:
    return build.tuple_or_single([operand.tensor for operand in operands])


def _flops(node: Node) -> int:
    """Of one pass through each region: how often a user's loop runs is not known here."""
    inside = (n for region in node.regions for n in topological(region.results, region.captures))
    return sum(inner.op.flops(inner) for inner in inside)


register(
    Op(name="while", infer=_infer_while, flops=_flops),
    Op(name="if", infer=_infer_branches, flops=_flops),
    Op(name="case", infer=_infer_branches, flops=_flops),
    Op(name="optimization_barrier", infer=_infer_barrier, flops=lambda _: 0),
)
