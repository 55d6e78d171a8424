"""Writes while loops that count their own steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node, Region, Source
from tf_memsafe.hlo.ops.structure import is_splat
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.types import TensorType

Body = Callable[[Node, tuple[Node, ...]], Sequence[Node]]
"""From the step, a scalar i32, and the state to the next state."""


def repeat(
    trips: Node,
    initial: Sequence[Node],
    body: Body,
    outer: Iterable[Node],
    source: Source | None = None,
) -> tuple[Node, ...]:
    """The state after `body` was applied `trips` times.

    trips: a scalar i32. outer: the values of the surrounding scope that the body may use.
    """
    state = (build.index(0), trips, *initial)
    types = [node.tensor for node in state]
    step, bound, *values = parameters = build.region_parameters(types)
    results = (build.add(step, build.index(1)), bound, *body(step, tuple(values)))
    tested = build.region_parameters(types)
    condition = Region(tested, (build.compare(tested[0], tested[1], "LT"),))
    return build.while_loop(state, condition, region(parameters, results, outer), source)[2:]


def region(parameters: Sequence[Node], results: Sequence[Node], outer: Iterable[Node]) -> Region:
    """A region that captures those `outer` values that it uses.

    A repeated value is written inside instead, where it costs nothing.
    """
    possible = dict.fromkeys(node for node in outer if not is_splat(node))
    nodes = topological(results, {*parameters, *possible})
    used = {*results, *(d for node in nodes for d in node.dependencies)}
    captures = tuple(node for node in possible if node in used)
    return Region(tuple(parameters), tuple(results), captures)


def entry(stack: Node, position: Node) -> Node:
    """One entry of a stack, with an axis of 1 in front."""
    starts = (position, *[build.index(0)] * (stack.tensor.rank - 1))
    return build.dynamic_slice(stack, starts, (1, *stack.shape[1:]))


def put(stack: Node, value: Node, position: Node) -> Node:
    """The stack with an entry replaced; the value may lack the axis of 1 in front."""
    starts = (position, *[build.index(0)] * (stack.tensor.rank - 1))
    return build.dynamic_update_slice(stack, build.reshape(value, (1, *stack.shape[1:])), starts)


def empty_stack(type_: TensorType, length: int) -> Node:
    """Zeros for `length` values of this type."""
    return build.zeros(type_.with_shape((length, *type_.shape)))
