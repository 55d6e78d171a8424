"""What a report calls the nodes of a program: as the user's code does, where that is known."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from tf_memsafe.hlo.node import Graph, Node, Source
from tf_memsafe.hlo.ops.structure import is_splat
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.types import TensorType

OPAQUE = {"custom_call", "rng", "rng_bit_generator"}
"""Ops whose StableHLO names do not say which operation of TensorFlow they are."""

PUBLIC = {
    "Multinomial": "tf.random.categorical",
    "Qr": "tf.linalg.qr",
    "MatrixInverse": "tf.linalg.inv",
    "MatrixSolve": "tf.linalg.solve",
    "RandomGammaGrad": "the gradient of tf.random.gamma",
    "RandomShuffle": "tf.random.shuffle",
    "RandomStandardNormal": "tf.random.normal",
    "RandomUniform": "tf.random.uniform",
    "RandomUniformInt": "tf.random.uniform",
    "SelfAdjointEigV2": "tf.linalg.eigh",
    "StatelessRandomNormal": "tf.random.stateless_normal",
    "StatelessRandomNormalV2": "tf.random.stateless_normal",
    "StatelessRandomUniform": "tf.random.stateless_uniform",
    "StatelessRandomUniformInt": "tf.random.stateless_uniform",
    "StatelessRandomUniformIntV2": "tf.random.stateless_uniform",
    "StatelessRandomUniformV2": "tf.random.stateless_uniform",
    "TruncatedNormal": "tf.random.truncated_normal",
}
"""The function that makes an operation, where the operation has a name of its own."""


def name_of_op(node: Node) -> str:
    """What made a value: a StableHLO op, or the operation of TensorFlow that says more."""
    if node.name == "get_tuple_element":
        return name_of_op(node.operands[0])
    made = node.source.op_type if node.source and node.name in OPAQUE else ""
    return PUBLIC.get(made, made) or node.name


def own_source(node: Node) -> Source | None:
    """What a node was made from; None for what programs share, which whichever was first made."""
    return None if node.name == "iota" or is_splat(node) else node.source


def accumulators(graph: Graph) -> dict[TensorType, Source]:
    """What loops begin with a constant and add to, or fill: the source of what each step brings."""
    found: dict[TensorType, Source] = {}
    for loop in _loops(graph.outputs):
        body = loop.regions[1]
        for initial, held, after in zip(loop.operands, body.parameters, body.results, strict=True):
            brought = (each.source for each in after.operands if each is not held)
            source = next(filter(None, brought), None)
            if is_splat(initial) and source is not None:
                found.setdefault(initial.tensor, source)
    return found


def _loops(results: tuple[Node, ...]) -> Iterator[Node]:
    for node in topological(results):
        if node.name == "while":
            yield node
        yield from chain.from_iterable(_loops(region.results) for region in node.regions)
