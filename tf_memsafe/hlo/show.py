"""Prints a graph as readable text, a line a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tf_memsafe.hlo.node import Graph, Node, Region, Source
from tf_memsafe.hlo.op import Symbol
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.hlo.ops.structure import is_splat, literal
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.types import TensorType

Locate = Callable[[Source], str | None]
"""Where a node came from, for its reader: `knn.py:12`, say."""

LONGEST_LITERAL = 6
"""A constant of more elements is shown without them."""

HIDDEN = {"precision_config", "serial", "compare_type", "indices_are_sorted", "unique_indices"}
"""Attributes that tell a reader little."""


def show(graph: Graph, locate: Locate | None = None) -> str:
    """The graph as text: what each node is made of, its type, its bytes and its origin.

    `locate` turns a source into what is printed for it; left out, that is the TensorFlow op.
    Example of a line: `%3 = dot_general(%1, %2) contract [1]x[0] : f32[10,20]  # 800 B  MatMul`.
    """
    lines = show_lines(graph, locate)
    return "".join(f"{'  ' * line.depth}{line.text}\n" for line in lines)


class Line(NamedTuple):
    """A line of a graph's text: how far it is indented, and the node that it shows, if any."""

    depth: int
    text: str
    node: Node | None = None


def show_lines(graph: Graph, locate: Locate | None = None) -> list[Line]:
    """The lines of `show(graph, locate)`."""
    return _Printer(locate or _op_type).graph(graph)


def size_text(size: float) -> str:
    """Bytes for people: `80.0 kB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def type_text(type_: TensorType) -> str:
    """`f32[10,20]`."""
    return f"{type_.dtype}[{','.join(map(str, type_.shape))}]"


def _op_type(source: Source) -> str | None:
    return source.op_type or source.op_name


class _Printer:
    def __init__(self, locate: Locate) -> None:
        self._locate = locate
        self._lines: list[Line] = []
        self._count = 0

    def graph(self, graph: Graph) -> list[Line]:
        self._region("graph", Region(graph.parameters, graph.outputs), {}, 0)
        return self._lines

    def _name(self) -> str:
        self._count += 1
        return f"%{self._count}"

    def _region(self, title: str, region: Region, outer: Mapping[Node, str], depth: int) -> None:
        names = {node: outer[node] for node in region.captures}
        names |= {parameter: self._name() for parameter in region.parameters}
        parameters = (f"{names[p]}: {type_text(p.tensor)}" for p in region.parameters)
        self._lines.append(Line(depth, f"{title}({', '.join(parameters)}):"))
        for node in topological(region.results, names):
            self._node(node, names, depth + 1)
        self._lines.append(Line(depth + 1, f"return {_list(names, region.results)}"))

    def _node(self, node: Node, names: dict[Node, str], depth: int) -> None:
        if node.name == "get_tuple_element":
            names[node] = f"{names[node.operands[0]]}.{node['index']}"
            return
        names[node] = self._name()
        call = f"{names[node]} = {node.name}({_list(names, node.operands)})"
        details = "".join(f" {detail}" for detail in _details(node))
        types = ", ".join(map(type_text, node.results))
        location = self._locate(node.source) if node.source else None
        comment = "  ".join(filter(None, (size_text(node.type.bytes), location)))
        self._lines.append(Line(depth, f"{call}{details} : {types}  # {comment}", node))
        for position, region in enumerate(node.regions):
            title = REGION_TITLES.get(node.name, ("region",) * len(node.regions))
            word = title[position] if position < len(title) else f"branch {position}"
            self._region(word, region, names, depth + 1)


REGION_TITLES = {
    "while": ("condition", "body"),
    "if": ("then", "else"),
    "case": (),
    "select_and_scatter": ("select", "scatter"),
}


def _list(names: Mapping[Node, str], nodes: Sequence[Node]) -> str:
    return ", ".join(names[node] for node in nodes)


def _details(node: Node) -> list[str]:
    if node.name == "constant":
        return [_literal_text(node)]
    return [
        text
        for name, value in node.attributes.items()
        if name not in HIDDEN and (text := _detail(name, value))
    ]


def _detail(name: str, value: Any) -> str:
    if isinstance(value, DotNumbers):
        batch = f"batch {_axes(value.lhs_batching)}x{_axes(value.rhs_batching)} "
        contract = f"contract {_axes(value.lhs_contracting)}x{_axes(value.rhs_contracting)}"
        return (batch if value.lhs_batching else "") + contract
    if isinstance(value, Symbol):
        return value.value
    if isinstance(value, tuple) and type(value) is not tuple and len(value) == 1:
        value = value[0]  # an attribute with a class of its own, such as Padding
    if type(value) is tuple:
        return f"{name}={_axes(value)}"
    return f"{name}={value}"


def _axes(axes: Sequence[Any]) -> str:
    return f"[{','.join(map(str, axes))}]"


def _literal_text(node: Node) -> str:
    values = literal(node)
    if len(values) > LONGEST_LITERAL:
        return "..."
    if is_splat(node) or node.shape == ():
        return str(values[0])
    return np.array2string(values, separator=",").replace("\n", "")
