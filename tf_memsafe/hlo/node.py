"""The program as immutable, hash-consed nodes: equal nodes are one object."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from tf_memsafe.hlo.types import TensorType, TupleType, Type

if TYPE_CHECKING:
    from tf_memsafe.hlo.op import Op

Attributes = Mapping[str, Any]
"""Attribute names as StableHLO has them; the values are hashable."""

NO_ATTRIBUTES: Attributes = MappingProxyType({})


@dataclass(frozen=True)
class Source:
    """The TensorFlow op a node came from; `op_name` finds the user's line in the tf.Graph."""

    op_type: str
    op_name: str


@dataclass(frozen=True)
class Region:
    """A computation inside a node, such as a reducer or a loop's body.

    What `results` reach belongs to the region, up to its `parameters` and up to its `captures`:
    the values of the surrounding program that it uses directly.
    """

    parameters: tuple[Node, ...]
    results: tuple[Node, ...]
    captures: tuple[Node, ...] = ()


class Node:
    """One operation and its result. Make nodes with `make` or with `tf_memsafe.hlo.build`."""

    __slots__ = (
        "__weakref__",
        "attributes",
        "op",
        "operands",
        "regions",
        "remembered",
        "source",
        "type",
    )

    op: Op
    operands: tuple[Node, ...]
    type: Type
    attributes: Attributes
    regions: tuple[Region, ...]
    source: Source | None
    remembered: dict[Hashable, Any]
    """What was found out about the node, which never changes, by those who ask often."""

    @property
    def name(self) -> str:
        """The op's StableHLO name."""
        return self.op.name

    @property
    def tensor(self) -> TensorType:
        """The type of a node with a single result."""
        assert isinstance(self.type, TensorType), f"{self.name} has several results"
        return self.type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.shape

    @property
    def dtype(self) -> str:
        return self.tensor.dtype

    @property
    def results(self) -> tuple[TensorType, ...]:
        """The type of each result."""
        return self.type.elements if isinstance(self.type, TupleType) else (self.type,)

    @property
    def dependencies(self) -> tuple[Node, ...]:
        """The values of its own scope that this node needs: operands, then captures."""
        if not self.regions:
            return self.operands
        return (*self.operands, *(c for region in self.regions for c in region.captures))

    def __getitem__(self, attribute: str) -> Any:
        return self.attributes[attribute]

    def __repr__(self) -> str:
        return f"<{self.name} {self.type}>"


_interned: WeakValueDictionary[Hashable, Node] = WeakValueDictionary()
_lock = threading.Lock()
_serial = itertools.count()


def make(
    op: Op,
    operands: Iterable[Node],
    type: Type,
    attributes: Attributes = NO_ATTRIBUTES,
    regions: Iterable[Region] = (),
    source: Source | None = None,
) -> Node:
    """The one node with this op, operands, type, attributes and regions.

    `source` is not part of the identity: the first source given stays. An op with effects gets a
    serial number, so that two of them never merge.
    """
    operands, regions = tuple(operands), tuple(regions)
    if op.effects and "serial" not in attributes:
        attributes = {**attributes, "serial": next(_serial)}
    # The tuples in the key keep the operands alive, so their identities cannot be reused.
    key = (op.name, operands, type, tuple(sorted(attributes.items(), key=_first)), regions)
    with _lock:
        node = _interned.get(key)
        if node is None:
            node = Node.__new__(Node)
            node.op, node.operands, node.type = op, operands, type
            node.attributes = MappingProxyType(dict(attributes))
            node.regions, node.source, node.remembered = regions, source, {}
            _interned[key] = node
    return node


def fresh_scope() -> str:
    """A name for the parameters of a region that was not read from a program."""
    return f"scope{next(_serial)}"


def _first(item: tuple[str, Any]) -> str:
    return item[0]


@dataclass(frozen=True)
class Graph:
    """A whole program: parameters in call order, and outputs (a node may appear twice)."""

    parameters: tuple[Node, ...]
    outputs: tuple[Node, ...]

    @property
    def types(self) -> tuple[TensorType, ...]:
        """The type of each parameter."""
        return tuple(parameter.tensor for parameter in self.parameters)
