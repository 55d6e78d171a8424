"""The optimizers, in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Mapping

from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.verify import verify
from tf_memsafe.rewrite.canonical import CANONICAL
from tf_memsafe.rewrite.chain import CHAIN
from tf_memsafe.rewrite.contraction import CONTRACTION
from tf_memsafe.rewrite.diagonal import DIAGONAL
from tf_memsafe.rewrite.distance import DISTANCE
from tf_memsafe.rewrite.driver import Rewritten, apply_everywhere
from tf_memsafe.rewrite.rule import Optimizer
from tf_memsafe.rewrite.sorted_slice import SORTED_SLICE
from tf_memsafe.rewrite.target import TARGET
from tf_memsafe.rewrite.top_k import TOP_K

OPTIMIZERS: tuple[Optimizer, ...] = (
    CANONICAL,
    SORTED_SLICE,
    DIAGONAL,
    DISTANCE,
    CONTRACTION,
    CHAIN,
)
"""Before a program is cut. One spelling first: the patterns of the others are written in it."""

FINISHING: tuple[Optimizer, ...] = (TOP_K, TARGET)
"""Once a program is cut: what they make cannot be cut as well, and depends on the chunks' sizes."""

MEASURED_DEVICES = {"CPU"}
"""Where the finishing optimizers were seen to pay."""

NAMES: tuple[str, ...] = tuple(dict.fromkeys(each.name for each in (*OPTIMIZERS, *FINISHING)))
"""By which optimizers are switched on and off."""


def rewrite(graph: Graph, enabled: Mapping[str, bool]) -> Rewritten:
    """The graph after each of the optimizers that is enabled, loops and branches inside as well."""
    result = Rewritten(graph)
    for optimizer in OPTIMIZERS:
        if not enabled[optimizer.name]:
            continue
        rewritten = apply_everywhere(optimizer, result.graph)
        result = rewritten.after(result)
        if rewritten.rewrites and enabled[CANONICAL.name]:
            tidied = apply_everywhere(CANONICAL, result.graph)  # what a rule left is not news
            result = Rewritten(tidied.graph, result.rewrites, result.refusals)
    return result


def finish(graph: Graph, enabled: Mapping[str, bool], device: str = "CPU") -> Rewritten:
    """A graph that is cut already, after the finishing optimizers that are enabled.

    Where none of their ops occurs this takes no time.

    device: the type of the device that the program is for, as TensorFlow names it. On one that is
        not in MEASURED_DEVICES the graph is left as it is.
    """
    result = Rewritten(graph)
    for optimizer in FINISHING if device in MEASURED_DEVICES else ():
        if enabled[optimizer.name]:
            result = apply_everywhere(optimizer, result.graph).after(result)
    if result.rewrites:
        verify(result.graph)
    # Of the loops that a plan made, no line of the user's is to be named.
    rewrites = tuple(each for each in result.rewrites if not _is_of_a_plan(each.node))
    # What a rule made of a node has its source: that it is left alone in the end is not news.
    fired = {(each.optimizer, each.node.source) for each in rewrites}
    refusals = (each for each in result.refusals if (each.optimizer, each.node.source) not in fired)
    return Rewritten(result.graph, rewrites, tuple(refusals))


def _is_of_a_plan(node: Node) -> bool:
    return node.name == "while" and node.source is None
