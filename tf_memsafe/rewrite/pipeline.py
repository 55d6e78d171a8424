"""The optimizers, in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Mapping

from tf_memsafe.hlo.node import Graph
from tf_memsafe.rewrite.canonical import CANONICAL
from tf_memsafe.rewrite.chain import CHAIN
from tf_memsafe.rewrite.contraction import CONTRACTION
from tf_memsafe.rewrite.diagonal import DIAGONAL
from tf_memsafe.rewrite.distance import DISTANCE
from tf_memsafe.rewrite.driver import Refusal, Rewrite, Rewritten, apply
from tf_memsafe.rewrite.rule import Optimizer

OPTIMIZERS: tuple[Optimizer, ...] = (CANONICAL, DIAGONAL, DISTANCE, CONTRACTION, CHAIN)
"""One spelling first: the patterns of the others are written in it."""


def rewrite(graph: Graph, enabled: Mapping[str, bool]) -> Rewritten:
    """The graph after each of the optimizers that is enabled."""
    rewrites: list[Rewrite] = []
    refusals: list[Refusal] = []
    for optimizer in OPTIMIZERS:
        if not enabled[optimizer.name]:
            continue
        rewritten = apply(optimizer, graph)
        graph = rewritten.graph
        rewrites += rewritten.rewrites
        refusals += rewritten.refusals
        if rewritten.rewrites and enabled[CANONICAL.name]:
            graph = apply(CANONICAL, graph).graph  # what a rule left is not news
    return Rewritten(graph, tuple(rewrites), tuple(refusals))
