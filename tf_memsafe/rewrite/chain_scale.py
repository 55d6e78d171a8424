"""What stands between the products of a chain: scalar factors, and views of a product."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.chain_links import Link, through_view
from tf_memsafe.rewrite.maths import VIEWS, repeated_value
from tf_memsafe.rewrite.rule import Uses


class Scale(NamedTuple):
    """A scalar factor or divisor, or a change of sign.

    op: multiply, divide or negate. size: the elements of what the user scales.
    """

    op: str
    scalar: tuple[Node, ...]
    size: int

    def applied(self, link: Link) -> Link:
        filled = (build.broadcast(scalar, link.node.shape) for scalar in self.scalar)
        return Link(build.emit(self.op, (link.node, *filled)), link.axes)


def scale_of(node: Node) -> tuple[Scale, Node] | None:
    """The scalar factor of a node and what it scales; None if it has none."""
    if node.name == "negate":
        return Scale("negate", (), node.tensor.size), node.operands[0]
    if node.name not in ("multiply", "divide"):
        return None
    if node.name == "divide" and "f" not in node.dtype:
        return None  # of integers: it rounds
    x, y = node.operands
    for scaled, factor in ((x, y), (y, x))[: 2 if node.name == "multiply" else 1]:
        if (scalar := _scalar(factor)) is not None:
            return Scale(node.name, (scalar,), node.tensor.size), scaled
    return None


def _scalar(node: Node) -> Node | None:
    """The one value that a node repeats, without axes; None if it may have several."""
    while node.tensor.size != 1 and node.name in VIEWS:
        node = node.operands[0]
    if node.tensor.size == 1:
        return build.reshape(node, ())
    value = repeated_value(node) if node.tensor.size else None
    return None if value is None else build.constant(value, TensorType(node.dtype))


class Shared(NamedTuple):
    """A value that others use too, and how many scalar factors of the chain are above it."""

    link: Link
    scales_above: int


class Uncovered(NamedTuple):
    """What is under the scalar factors and views of a value.

    inside: what is under all of them. scales: the factors, the outermost first.
    shared: the outermost value on the way that others use too.
    link: what is under the factors that this value alone has, with its views.
    """

    inside: Link
    scales: list[Scale]
    shared: Shared | None
    link: Link

    @property
    def own_scales(self) -> list[Scale]:
        """The factors that are not in what others use too."""
        return self.scales if self.shared is None else self.scales[: self.shared.scales_above]


def uncover(
    link: Link, summed: set[int], fresh: Iterator[int], uses: Uses, is_root: bool, is_shared: bool
) -> Uncovered:
    """Looks under what covers a product.

    summed: the axes that are summed over later: a view that has not all of them is not one.
    """
    outer, scales, shared = link, list[Scale](), Shared(link, 0) if is_shared else None
    while True:
        if shared is None and not is_root and uses.only_user(link.node) is None:
            shared = Shared(link, len(scales))
        is_root = False
        view = through_view(link, fresh)
        if view is not None and summed <= {*view.axes}:
            link = view
        elif found := scale_of(link.node):
            scales.append(found[0])
            link = Link(found[1], link.axes)
            outer = link if shared is None else outer
        else:
            return Uncovered(link, scales, shared, outer)
