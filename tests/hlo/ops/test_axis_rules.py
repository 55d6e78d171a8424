"""Each axis rule is proved: chunks made by it, from chunks of operands, equal the whole's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from tests.hlo.ops.axis_instances import FAMILIES
from tests.hlo.ops.makers import Instance
from tests.hlo.running import random_array, run
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.op import Chunk, Contraction, Cut, all_ops, not_sliced
from tf_memsafe.hlo.verify import verify
from tf_memsafe.split.chunk import chunk_node, contracted_chunk, with_operands
from tf_memsafe.split.cuts import Span, operand_cuts, pieces, span_of, steps_of

TOLERANCE = 1e-5
"""Of the largest element: XLA may sum in another order."""


CONTRACTED = ("sums", "indexing", "ordering")
"""The families whose ops reduce axes away."""


class Case(NamedTuple):
    """A value made from chunks, and the same cut from the whole."""

    name: str
    made: Node
    expected: Node


def part(node: Node, cut: Cut, offset: int, size: int) -> Node:
    """The elements that steps `offset` to `offset + size` of a loop cut so cover."""
    starts, limits = [0] * node.tensor.rank, list(node.shape)
    starts[cut.axis] = (offset - cut.first) * cut.unit
    limits[cut.axis] = starts[cut.axis] + size * cut.unit
    attributes = {
        "start_indices": tuple(starts),
        "limit_indices": tuple(limits),
        "strides": (1,) * node.tensor.rank,
    }
    return build.emit("slice", (node,), attributes)


def made_chunk(node: Node, cut: Cut, cuts: Sequence[Cut | None], offset: int, size: int) -> Node:
    operands = [
        operand if needed is None else part(operand, needed, offset, size)
        for operand, needed in zip(node.operands, cuts, strict=True)
    ]
    return chunk_node(node, cut, operands, Chunk(build.index(offset), size))


def cut_cases(instance: Instance, node: Node, cut: Cut) -> list[Case]:
    """Two chunks of different sizes and offsets, for each result."""
    cuts = node.op.slice(node, cut)
    if cuts is None or node.op.pieces(node, cut) or node.op.carry(node, cut):
        return []
    span = span_of(node, cut)
    for operand, needed in zip(node.operands, cuts, strict=True):
        if needed is not None:
            first, stop = span_of(operand, needed)
            assert (max(first, span.first), min(stop, span.stop)) == span, "it covers the result"
    cases = []
    for offset, size in ((span.first, 1), (span.first + 1, steps_of(node, cut) - 1)):
        made = made_chunk(node, cut, cuts, offset, size)
        pairs = zip(build.results(made), build.results(node), strict=True)
        name = f"{instance.name}, {cut}, steps {offset} to {offset + size}"
        cases += [Case(name, chunk, part(whole, cut, offset, size)) for chunk, whole in pairs]
    return cases


def piece_cases(instance: Instance, node: Node, cut: Cut) -> list[Case]:
    """Each piece, whole."""
    cuts = operand_cuts(node, cut)
    if cuts is None:
        return []
    cases = []
    for (first, stop), index in pieces(node, cut):
        expected = part(node, cut, first, stop - first)
        operand, needed = node.operands[index], cuts[index]
        if needed is None:
            made = build.broadcast(operand, expected.shape)
        else:
            made = part(operand, needed, first, stop - first)
        cases.append(Case(f"{instance.name}, {cut}, steps {first} to {stop}", made, expected))
    return cases


def carried_cases(instance: Instance, node: Node, cut: Cut) -> list[Case]:
    """Two chunks, the second given what the first hands on."""
    carry, cuts = node.op.carry(node, cut), operand_cuts(node, cut)
    if carry is None or cuts is None:
        return []
    span, carried, cases = span_of(node, cut), carry.initial, []
    ends = (Span(span.first, span.first + 1), Span(span.first + 1, span.stop))
    for first, stop in ends[::-1] if carry.backwards else ends:
        operands = [
            operand if needed is None else part(operand, needed, first, stop - first)
            for operand, needed in zip(node.operands, cuts, strict=True)
        ]
        made, carried = carry.chunk(operands, carried)
        name = f"{instance.name}, {cut}, steps {first} to {stop}"
        cases.append(Case(name, made, part(node, cut, first, stop - first)))
    return cases


def contraction_cases(instance: Instance, node: Node, contraction: Contraction) -> list[Case]:
    """All results, combined from two chunks."""
    accumulated = contraction.initial(node)
    axes = list(zip(node.operands, contraction.axes, strict=True))
    length = next(operand.shape[axis] for operand, axis in axes if axis is not None)
    for offset, size in ((0, 1), (1, length - 1)):
        operands = [
            operand if axis is None else part(operand, Cut(axis), offset, size)
            for operand, axis in axes
        ]
        on_chunk = with_operands(node, operands)
        chunk = build.results(contracted_chunk(on_chunk, contraction))
        accumulated = contraction.combine(on_chunk, accumulated, chunk, build.index(offset))
    name = f"{instance.name}, combined along {contraction.axes}"
    return [
        Case(name, build.convert(made, whole.dtype), whole)
        for made, whole in zip(accumulated, build.results(node), strict=True)
    ]


def possible_cuts(node: Node) -> list[Cut]:
    shape = node.results[0].shape
    units = (1, 2, 3)
    return [
        Cut(axis, unit, first)
        for axis, size in enumerate(shape)
        for unit in units
        for first in (0, 2)
        if size % unit == 0 and size // unit > 1
    ]


@cache
def nodes(family: str) -> tuple[tuple[Node, ...], list[tuple[Instance, Node]]]:
    """The parameters of a family's program, and its nodes."""
    instances = FAMILIES[family]
    types = [type_ for instance in instances for type_ in instance.types]
    parameters = build.region_parameters(types)
    rest, made = iter(parameters), []
    for instance in instances:
        operands = [next(rest) for _ in instance.types]
        made.append((instance, instance.make(*operands)))
    return parameters, made


def arguments(family: str) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    for instance in FAMILIES[family]:
        values = [random_array(type_, len(found) + n) for n, type_ in enumerate(instance.types)]
        if instance.values is not None:
            values[0] = instance.values(0)
        found += values
    return found


def failures(family: str, cases: Sequence[Case]) -> list[str]:
    parameters, _ = nodes(family)
    graph = Graph(parameters, tuple(node for case in cases for node in case[1:]))
    verify(graph)
    outputs = run(graph, arguments(family))
    return [
        case.name
        for case, made, expected in zip(cases, outputs[::2], outputs[1::2], strict=True)
        if not close(made, expected)
    ]


def close(made: np.ndarray, expected: np.ndarray) -> bool:
    if expected.dtype.kind not in "fc":
        return np.array_equal(made, expected)
    largest = np.max(np.abs(expected), initial=1)
    tolerance = 1e-2 if expected.dtype.itemsize == 2 else TOLERANCE
    return np.allclose(made, expected, rtol=0, atol=tolerance * largest, equal_nan=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_chunks_equal_the_same_part_of_the_whole(family: str) -> None:
    cases = [
        case
        for instance, node in nodes(family)[1]
        for cut in possible_cuts(node)
        for cases in (cut_cases, piece_cases, carried_cases)
        for case in cases(instance, node, cut)
    ]
    assert failures(family, cases) == []


@pytest.mark.parametrize("family", CONTRACTED)
def test_combined_chunks_equal_the_whole(family: str) -> None:
    cases = [
        case
        for instance, node in nodes(family)[1]
        for contraction in node.op.contract(node)
        for case in contraction_cases(instance, node, contraction)
    ]
    assert failures(family, cases) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_the_axes_that_can_be_cut_are_those_listed(family: str) -> None:
    for instance, node in nodes(family)[1]:
        cuts = [cut for cut in possible_cuts(node) if cut[1:] == (1, 0)]
        axes = tuple(cut.axis for cut in cuts if node.op.slice(node, cut) is not None)
        found = (axes, len(node.op.contract(node)))
        assert (instance.name, *found) == (instance.name, instance.axes, instance.contractions)


def test_every_op_with_an_axis_rule_is_proved() -> None:
    proved = {node.op.slice for family in FAMILIES for _, node in nodes(family)[1]}
    # An element of a tuple is cut as the tuple is: the proofs compare elements.
    unproved = {op.name for op in all_ops() if op.slice not in {*proved, not_sliced}}
    assert unproved <= {"get_tuple_element"}
