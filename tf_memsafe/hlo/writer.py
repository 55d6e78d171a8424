"""Writes a `Graph` as StableHLO text, in MLIR's generic form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tf_memsafe.hlo.node import Graph, Node, Region
from tf_memsafe.hlo.order import topological

UNWRITTEN = {"serial"}
"""Attributes that only the graph uses."""


def write(graph: Graph) -> str:
    """A module whose `main` takes the graph's parameters and returns its outputs."""
    return _Writer().module(graph)


def lines(graph: Graph) -> dict[int, Node]:
    """The node that is written on each line of `write(graph)`, which counts from 1 on."""
    writer = _Writer()
    writer.module(graph)
    return writer.nodes


class _Writer:
    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self._lines: list[str] = []
        self._count = 0

    def module(self, graph: Graph) -> str:
        names = self._declare(graph.parameters)
        arguments = ", ".join(f"{names[p]}: {p.type}" for p in graph.parameters)
        types = ", ".join(str(output.type) for output in graph.outputs)
        self._lines.append(f"func.func public @main({arguments}) -> ({types}) {{")
        self._scope(graph.outputs, names, "  ")
        outputs = ", ".join(names[output] for output in graph.outputs)
        self._lines.append(f'  "func.return"({outputs}) : ({types}) -> ()\n}}\n')
        return "\n".join(self._lines)

    def _declare(self, nodes: Sequence[Node]) -> dict[Node, str]:
        return {node: self._name() for node in nodes}

    def _name(self) -> str:
        self._count += 1
        return f"%{self._count}"

    def _scope(self, results: Sequence[Node], names: dict[Node, str], indent: str) -> None:
        """Writes what `results` need and `names` does not have yet."""
        for node in topological(results, names):
            if node.name == "get_tuple_element":
                names[node] = f"{names[node.operands[0]]}#{node['index']}"
            else:
                names[node] = self._name()
                self._node(node, names, indent)

    def _node(self, node: Node, names: dict[Node, str], indent: str) -> None:
        self.nodes[len(self._lines) + 1] = node
        results = node.results
        assigned = f"{names[node]}:{len(results)}" if len(results) != 1 else names[node]
        operands = ", ".join(names[operand] for operand in node.operands)
        operand_types = ", ".join(str(operand.type) for operand in node.operands)
        result_types = ", ".join(map(str, results))
        attributes = node.op.write(node) if node.op.write else _attributes(node)
        opening = f'{indent}{assigned} = "{node.op.dialect}.{node.name}"({operands})'
        closing = f"{{{attributes}}} : ({operand_types}) -> ({result_types})"
        if not node.regions:
            self._lines.append(f"{opening} {closing}")
            return
        self._lines.append(f"{opening} ({{")
        for position, region in enumerate(node.regions):
            if position:
                self._lines.append(f"{indent}}}, {{")
            self._region(region, names, f"{indent}  ")
        self._lines.append(f"{indent}}}) {closing}")

    def _region(self, region: Region, outer: dict[Node, str], indent: str) -> None:
        names = self._declare(region.parameters)
        if region.parameters:
            arguments = ", ".join(f"{names[p]}: {p.type}" for p in region.parameters)
            self._lines.append(f"{indent[:-2]}^bb0({arguments}):")
        names.update({captured: outer[captured] for captured in region.captures})
        self._scope(region.results, names, indent)
        results = ", ".join(names[result] for result in region.results)
        types = ", ".join(str(result.type) for result in region.results)
        self._lines.append(f'{indent}"stablehlo.return"({results}) : ({types}) -> ()')


def _attributes(node: Node) -> str:
    return ", ".join(
        f"{name} = {attribute_text(value)}"
        for name, value in node.attributes.items()
        if name not in UNWRITTEN
    )


def attribute_text(value: Any) -> str:
    """An attribute as MLIR text. Values with a class of their own know theirs, as `str`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value} : i64"
    if type(value) is str:
        return json.dumps(value)
    if type(value) is tuple:
        return _array_text(value)
    return str(value)


def _array_text(values: tuple[Any, ...]) -> str:
    if all(isinstance(value, bool) for value in values) and values:
        return f"array<i1: {', '.join(str(value).lower() for value in values)}>"
    if all(isinstance(value, int) for value in values):
        return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"
    return f"[{', '.join(map(attribute_text, values))}]"
