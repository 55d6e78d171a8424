"""Large constants become parameters: written out in a program's text they would swell it."""

from __future__ import annotations

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.ops.structure import is_splat
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.rebuild import rebuild

LARGEST_WRITTEN = 16_384
"""Bytes of the largest constant that is written into a program's text, at two digits a byte."""


def lift_large_constants(graph: Graph) -> tuple[Graph, tuple[Node, ...]]:
    """The graph with a parameter, after its own, for each large constant; and those constants."""
    constants = tuple(
        node
        for node in topological(graph.outputs)
        if node.name == "constant" and node.type.bytes > LARGEST_WRITTEN and not is_splat(node)
    )
    parameters = build.region_parameters([constant.tensor for constant in constants])
    outputs = rebuild(graph.outputs, dict(zip(constants, parameters, strict=True)))
    return Graph((*graph.parameters, *parameters), tuple(outputs)), constants
