"""Graphs of one tensor in canonical form, for the tests of the canonical rules."""

from __future__ import annotations

from collections.abc import Callable

from tests.rewrite.rewriting import shown
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.canonical import CANONICAL
from tf_memsafe.rewrite.driver import Rewritten, apply

MATRIX = TensorType("f32", (4, 6))

Make = Callable[[Node], Node]


def canonical(make: Make, type_: TensorType = MATRIX) -> Rewritten:
    """What the rules make of a graph of one tensor, %1, of this type."""
    (x,) = build.region_parameters([type_])
    return apply(CANONICAL, Graph((x,), (make(x),)))


def canonical_of(*outputs: Node) -> Rewritten:
    """The same for a graph whose parameters are given by its outputs."""
    parameters: dict[Node, None] = {}
    stack = list(outputs)
    while stack:
        node = stack.pop()
        stack += node.operands
        if node.name == "parameter":
            parameters[node] = None
    ordered = tuple(sorted(parameters, key=lambda node: int(node["index"])))
    return apply(CANONICAL, Graph(ordered, outputs))


def parameters(*types: TensorType | tuple[int, ...]) -> tuple[Node, ...]:
    """Tensors of these types, f32 where only a shape is given."""
    given = [TensorType("f32", t) if isinstance(t, tuple) else t for t in types]
    return build.region_parameters(given)


def body(result: Rewritten) -> list[str]:
    """The graph's lines between the parameters and the results."""
    return shown(result.graph)[1:-1]


def iota() -> Node:
    return build.emit("iota", (), {"iota_dimension": 1}, type=TensorType("i32", (4, 6)))
