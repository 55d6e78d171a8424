"""Checks a graph: types follow from operands, regions fit, no value is used out of its scope."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tf_memsafe.hlo.node import Graph, Node, Region
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.types import TensorType, TupleType


class InvalidGraphError(Exception):
    """A pass made a graph that is not a program; `node` is where it shows."""

    def __init__(self, node: Node, complaint: str) -> None:
        operands = ", ".join(f"{operand.name}: {operand.type}" for operand in node.operands)
        origin = f", from {node.source.op_name!r}" if node.source else ""
        super().__init__(f"{node.name}({operands}) : {node.type}{origin}: {complaint}")
        self.node = node


def verify(graph: Graph) -> None:
    """Raises InvalidGraphError, naming the node, unless the graph is a well-typed program."""
    _Verifier().scope(Region(graph.parameters, graph.outputs))


class _Verifier:
    def __init__(self) -> None:
        self._verified: set[Region] = set()

    def scope(self, region: Region) -> None:
        """What belongs to one region, and the regions inside it. Equal regions are checked once."""
        if region in self._verified:
            return
        self._verified.add(region)
        _verify_parameters(region.parameters)
        for node in topological(region.results, {*region.parameters, *region.captures}):
            _verify_node(node)
            for inner in node.regions:
                self.scope(inner)
        for result in region.results:
            _verify_value(result, result)


def _verify_parameters(parameters: Sequence[Node]) -> None:
    for position, parameter in enumerate(parameters):
        if parameter.name != "parameter":
            raise InvalidGraphError(parameter, "this is declared as a parameter, and is none")
        if parameter in parameters[:position]:
            raise InvalidGraphError(parameter, "this parameter is declared twice")


def _verify_node(node: Node) -> None:
    if node.name == "parameter":
        raise InvalidGraphError(node, "this parameter belongs to another scope")
    if node.name == "get_tuple_element":
        _verify_element(node)
    else:
        for operand in node.operands:
            _verify_value(operand, node)
    try:
        inferred = node.op.infer(node.operands, node.attributes, node.regions, node.type)
    except (TypeError, ValueError, LookupError, AssertionError) as error:
        raise InvalidGraphError(node, str(error)) from error
    if inferred != node.type:
        raise InvalidGraphError(node, f"the operands make it {inferred}")
    _verify_signatures(node)


def _verify_value(value: Node, user: Node) -> None:
    if isinstance(value.type, TupleType):
        raise InvalidGraphError(user, f"{value!r} is used as if it were one tensor")


def _verify_element(node: Node) -> None:
    (operand,) = node.operands
    if not isinstance(operand.type, TupleType):
        raise InvalidGraphError(node, f"{operand!r} has only one result")


# --- the regions of an op -----------------------------------------------------------------------


class Signature(NamedTuple):
    """The types that a region takes and returns."""

    parameters: Sequence[TensorType]
    results: Sequence[TensorType]


BOOLEAN = TensorType("i1")


def _scalars(types: Iterable[TensorType]) -> list[TensorType]:
    return [TensorType(type_.dtype) for type_ in types]


def _tensors(nodes: Iterable[Node]) -> list[TensorType]:
    return [node.tensor for node in nodes]


def _reduction(node: Node) -> list[Signature]:
    count = len(node.results)
    arrays, initial = _tensors(node.operands[:count]), _tensors(node.operands[count:])
    return [Signature(_scalars([*initial, *arrays]), _scalars(node.results))]


def _scatter(node: Node) -> list[Signature]:
    count = len(node.results)
    inputs, updates = _tensors(node.operands[:count]), _tensors(node.operands[count + 1 :])
    return [Signature(_scalars([*inputs, *updates]), _scalars(node.results))]


def _select_and_scatter(node: Node) -> list[Signature]:
    operand, source, _ = _scalars(_tensors(node.operands))
    return [Signature([operand, operand], [BOOLEAN]), Signature([source, source], [source])]


def _sort(node: Node) -> list[Signature]:
    pairs = [type_ for type_ in node.results for _ in range(2)]
    return [Signature(_scalars(pairs), [BOOLEAN])]


def _map(node: Node) -> list[Signature]:
    return [Signature(_scalars(_tensors(node.operands)), _scalars(node.results))]


def _while(node: Node) -> list[Signature]:
    return [Signature(node.results, [BOOLEAN]), Signature(node.results, node.results)]


def _branches(node: Node) -> list[Signature]:
    return [Signature((), node.results)] * len(node.regions)


SIGNATURES: dict[str, Callable[[Node], list[Signature]]] = {
    "case": _branches,
    "if": _branches,
    "map": _map,
    "reduce": _reduction,
    "reduce_window": _reduction,
    "scatter": _scatter,
    "select_and_scatter": _select_and_scatter,
    "sort": _sort,
    "while": _while,
}
"""What the regions of each op that has some take and return."""


def _verify_signatures(node: Node) -> None:
    signatures = SIGNATURES.get(node.name)
    expected = signatures(node) if signatures else []
    if len(expected) != len(node.regions):
        raise InvalidGraphError(node, f"it has {len(node.regions)} regions, not {len(expected)}")
    for region, signature in zip(node.regions, expected, strict=True):
        found = Signature(_tensors(region.parameters), _tensors(region.results))
        for what, has, needs in zip(("takes", "returns"), found, signature, strict=True):
            if list(has) != list(needs):
                types = (f"({', '.join(map(str, side))})" for side in (has, needs))
                raise InvalidGraphError(node, f"its region {what} {', not '.join(types)}")
