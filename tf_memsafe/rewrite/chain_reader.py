"""Reads a chain of products and solves out of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.op import Symbol
from tf_memsafe.rewrite.chain_links import Inverse, Link, factors
from tf_memsafe.rewrite.chain_mirror import mirrored_axes
from tf_memsafe.rewrite.chain_plan import ChainSizes, Order, Span, span_of
from tf_memsafe.rewrite.chain_scale import Scale, uncover
from tf_memsafe.rewrite.rule import Uses

MOST_LINKS = 200
"""Of one chain: planning takes time with the third power of their number."""

PRODUCTS = {"dot_general", "triangular_solve"}


class There(NamedTuple):
    """A part of a chain that is computed anyway, and which of the scalar factors it contains."""

    link: Link
    scales: range


class Chain:
    """The chain whose result is `root`, read down to `levels` products above one another.

    axes: of the result. links: what is multiplied. order: in which order the user does it.
    scales: the scalar factors. there: the parts that others use too.
    products: the nodes that multiply. precision: theirs. summed: the axes that they sum over.
    """

    def __init__(self, root: Node, uses: Uses, levels: int = MOST_LINKS) -> None:
        self.root = root
        self.axes = tuple(range(root.tensor.rank))
        self.links: list[Link] = []
        self.scales: list[Scale] = []
        self.there: dict[Span, There] = {}
        self.products: list[Node] = []
        self.precision: tuple[Symbol, ...] | None = None
        self.summed: set[int] = set()
        self._uses, self._levels, self._fresh = uses, levels, count(len(self.axes))
        self.order = self._open(Link(root, self.axes), set(), set())

    def _open(
        self, link: Link, left: set[int], right: set[int], is_shared: bool = False, level: int = 0
    ) -> Order:
        """Adds the links of a value; returns the order in which the user multiplies them.

        left, right: the axes that are summed over with what is before, and behind, the value.
        is_shared: whether the value is part of what others use too.
        """
        if isinstance(link, Inverse):
            return self._add(link)
        is_root = link.node is self.root
        found = uncover(link, left | right, self._fresh, self._uses, is_root, is_shared)
        parts = self._parts(found.inside, left, right, level)
        if parts is None:
            return self._add(found.link, found.own_scales)
        first_scale = len(self.scales)
        self.scales += found.scales
        inner = {*parts[0].axes} & {*parts[1].axes} - {*found.inside.axes}
        self.summed |= inner
        is_shared = found.shared is not None
        first = self._open(parts[0], left, inner, is_shared, level + 1)
        order = first, self._open(parts[1], inner, right, is_shared, level + 1)
        if found.shared is not None:
            scales = range(first_scale + found.shared.scales_above, len(self.scales))
            self.there[span_of(order)] = There(found.shared.link, scales)
        return order

    def _add(self, link: Link, scales: Sequence[Scale] = ()) -> int:
        self.links.append(link)
        self.scales += scales
        return len(self.links) - 1

    def _parts(
        self, link: Link, left: set[int], right: set[int], level: int
    ) -> tuple[Link, Link] | None:
        """The two links that a product multiplies; None for what is a link itself."""
        if level == self._levels or len(self.links) >= MOST_LINKS or not self._belongs(link.node):
            return None
        parts = factors(link, left, right, self._fresh)
        if parts is not None:
            self.products.append(link.node)
        return parts

    def _belongs(self, node: Node) -> bool:
        """Whether a node is a product like the others of the chain."""
        if node.name not in PRODUCTS:
            return False
        if any(each.dtype != self.root.dtype for each in (node, *node.operands)):
            return False
        if node.name == "triangular_solve":
            return True
        self.precision = self.precision or node["precision_config"]
        return bool(node["precision_config"] == self.precision)

    def sizes(self) -> ChainSizes:
        """What is to be planned."""
        axes = [frozenset(link.axes) for link in self.links]
        return ChainSizes(
            links=axes,
            sizes={axis: size for link in self.links for axis, size in link.sizes.items()},
            result=frozenset().union(*axes) - self.summed,
            inverses=frozenset(i for i, link in enumerate(self.links) if isinstance(link, Inverse)),
            scales=[scale.size for scale in self.scales],
            there={span: there.scales for span, there in self.there.items()},
            mirrored=mirrored_axes(self.links, self.summed) is not None,
        )

    def mirrored(self, half: Link) -> Link:
        """The product of the first half of the links, given that of the second."""
        axes = mirrored_axes(self.links, self.summed) or {}
        # What is not mirrored is the axis that the halves share, or has one element.
        missing = {axis: axis if axis in self.summed else next(self._fresh) for axis in half.axes}
        return Link(half.node, tuple((missing | axes)[axis] for axis in half.axes))
