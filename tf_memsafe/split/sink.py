"""Makes in a loop what it is given whole, where that is made of less.

A kernel matrix is made before the loop of conjugate gradients that multiplies by it. A loop whose
steps make it anew needs a chunk of it at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node, Region
from tf_memsafe.hlo.op import Fusion
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.rebuild import rebuild, remake
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.split.steps import region, repeated

SMALLER = 4
"""How many times smaller what a value is made of is to be: else keeping the value is as good."""

LEAST_BYTES = 4096
"""Of a value that is worth making again."""


def sink(graph: Graph) -> Graph:
    """The program in which loops make the large values that they are given and do not change.

    Each of their steps does, so it takes longer. The graph itself if there is no such value.
    """
    new: dict[Node, Node] = {}
    for node in topological(graph.outputs):
        if node in new:
            continue
        new[node] = remade = remake(node, new)
        if remade.name == "while":
            new |= zip(build.results(node), _sunk(remade), strict=True)
    return Graph(graph.parameters, tuple(new[output] for output in graph.outputs))


def _sunk(loop: Node) -> list[Node]:
    """The results of a loop that makes what it can."""
    condition, body = loop.regions
    fixed = {
        place: operand
        for place, operand in enumerate(loop.operands)
        if body.results[place] is body.parameters[place]
        and condition.parameters[place] not in topological(condition.results)
    }
    made = {value: parts for value in (*fixed.values(), *body.captures) if (parts := _parts(value))}
    moved = {place: value for place, value in fixed.items() if value in made}
    if not made:
        return list(build.results(loop))
    kept = [place for place in range(len(loop.operands)) if place not in moved]
    outer = [*(c for c in body.captures if c not in made), *(p for of in made.values() for p in of)]
    types = [loop.operands[place].tensor for place in kept]
    written = build.while_loop(
        [loop.operands[place] for place in kept],
        _given(condition, types, kept, moved, condition.results, condition.captures),
        _given(body, types, kept, moved, [body.results[place] for place in kept], outer),
        loop.source,
    )
    results = dict(zip(kept, written, strict=True)) | moved
    return [results[place] for place in range(len(loop.operands))]


def _given(
    old: Region,
    types: Sequence[TensorType],
    kept: Sequence[int],
    moved: Mapping[int, Node],
    results: Sequence[Node],
    outer: Sequence[Node],
) -> Region:
    """Results of a region that is given the kept values alone, and may use the `outer` ones."""
    parameters = build.region_parameters(types)
    inside = {old.parameters[place]: new for place, new in zip(kept, parameters, strict=True)}
    inside |= {old.parameters[place]: value for place, value in moved.items()}
    inside |= {capture: capture for capture in old.captures}
    return region(parameters, rebuild(results, inside), outer)


def _parts(value: Node) -> list[Node] | None:
    """The values that a large one is made of by what can be cut; None if one of them is large."""
    if value.type.bytes < LEAST_BYTES:
        return None
    parts: dict[Node, None] = {}
    pending, seen = [value], {value}
    while pending:
        node = pending.pop()
        if not _is_made(node):
            return None
        for operand in node.operands:
            if operand in seen:
                continue
            seen.add(operand)
            if operand.type.bytes * SMALLER > value.type.bytes:
                pending.append(operand)
            else:
                parts[operand] = None
    return list(parts)


def _is_made(node: Node) -> bool:
    """Whether an op makes a value that can be made again, chunk by chunk."""
    if node.name == "constant":
        return repeated(node) is not None
    whole = node.op.fusion is Fusion.CALL and node.name != "dot_general"
    return node.name not in ("parameter", "get_tuple_element") and not (whole or node.op.effects)
