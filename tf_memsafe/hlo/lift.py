"""A scalar region applied to whole tensors, element by element."""

from __future__ import annotations

from collections.abc import Sequence

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node, Region, make
from tf_memsafe.hlo.op import Fusion
from tf_memsafe.hlo.order import topological


def can_lift(region: Region) -> bool:
    """Whether each op of the region works element by element."""
    return all(
        node.op.fusion is Fusion.LOOP or node in region.parameters or node.name == "constant"
        for node in topological(region.results)
    )


def lift(region: Region, arguments: Sequence[Node]) -> tuple[Node, ...]:
    """The region's results for tensors of one shape in place of its scalar parameters."""
    shape = arguments[0].shape
    lifted = dict(zip(region.parameters, arguments, strict=True))
    for node in topological(region.results, lifted):
        if node.name == "constant":
            lifted[node] = build.broadcast(node, shape)
        else:
            operands = tuple(lifted[operand] for operand in node.operands)
            lifted[node] = make(node.op, operands, node.tensor.with_shape(shape), node.attributes)
    return tuple(lifted[result] for result in region.results)
