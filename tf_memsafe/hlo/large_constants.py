"""Large constants become parameters: written out in a program's text they would swell it."""

from __future__ import annotations

from tf_memsafe.hlo import build
from tf_memsafe.hlo.banded_constants import computed_band
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.ops.structure import is_splat
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.rebuild import rebuild

LARGEST_WRITTEN = 16_384
"""Bytes of the largest constant that is written into a program's text, at two digits a byte."""


def lift_large_constants(graph: Graph) -> tuple[Graph, tuple[Node, ...]]:
    """The graph with a parameter, after its own, for each large constant; and those constants.

    Masks and eyes are computed instead.
    """
    large = [node for node in topological(graph.outputs) if _is_large(node)]
    computed = {node: band for node in large if (band := computed_band(node)) is not None}
    constants = tuple(node for node in large if node not in computed)
    parameters = build.region_parameters([constant.tensor for constant in constants])
    replacements = computed | dict(zip(constants, parameters, strict=True))
    outputs = tuple(rebuild(graph.outputs, replacements))
    return Graph((*graph.parameters, *parameters), outputs), constants


def _is_large(node: Node) -> bool:
    large = node.name == "constant" and node.type.bytes > LARGEST_WRITTEN
    return large and not is_splat(node)
