"""Writes while loops that count their own steps, and the stacks that they fill."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node, Region, Source, make
from tf_memsafe.hlo.ops.structure import is_splat, literal
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.types import TensorType

Body = Callable[[Node, tuple[Node, ...]], Sequence[Node]]
"""From the step, a scalar i32, and the state to the next state."""


def repeat(
    trips: int | Node,
    initial: Sequence[Node],
    body: Body,
    outer: Iterable[Node],
    source: Source | None = None,
) -> tuple[Node, ...]:
    """The state after `body` was applied `trips` times; one time takes no loop.

    trips: if it is a node, a scalar i32. outer: the values of the surrounding scope that the body
    may use.
    """
    if trips == 1:
        return tuple(body(build.index(0), tuple(initial)))
    bounds = (trips,) if isinstance(trips, Node) else ()
    state = (build.index(0), *bounds, *initial)
    types = [node.tensor for node in state]
    parameters = build.region_parameters(types)
    step, values = parameters[0], parameters[1 + len(bounds) :]
    counted = (build.add(step, build.index(1)), *parameters[1 : 1 + len(bounds)])
    results = (*counted, *body(step, values))
    tested = build.region_parameters(types)
    bound = build.index(trips) if isinstance(trips, int) else tested[1]
    condition = Region(tested, (build.compare(tested[0], bound, "LT"),))
    final = build.while_loop(state, condition, region(parameters, results, outer), source)
    return final[len(counted) :]


def region(parameters: Sequence[Node], results: Sequence[Node], outer: Iterable[Node]) -> Region:
    """A region that captures those `outer` values that it uses.

    A repeated value is written inside instead, where it costs nothing.
    """
    possible = dict.fromkeys(node for node in outer if repeated(node) is None)
    nodes = topological(results, {*parameters, *possible})
    used = {*results, *(d for node in nodes for d in node.dependencies)}
    captures = tuple(node for node in possible if node in used)
    return Region(tuple(parameters), tuple(results), captures)


def repeated(node: Node) -> Node | None:
    """The scalar constant that a value repeats, if that is all it is."""
    if is_splat(node):
        scalar = node.tensor.with_shape(())
        return build.constant(literal(node)[0], scalar)
    if node.name in ("broadcast_in_dim", "reshape"):
        return repeated(node.operands[0])
    return None


def with_regions(node: Node, regions: Iterable[Region]) -> Node:
    """The node with other regions that take and return the same."""
    return make(node.op, node.operands, node.type, node.attributes, regions, node.source)


# --- stacks: one value a step, along a new first axis ---


def empty_stack(type_: TensorType, length: int) -> Node:
    """Zeros for `length` values of this type."""
    return build.zeros(type_.with_shape((length, *type_.shape)))


def entry(stack: Node, position: Node) -> Node:
    """One entry of a stack, with an axis of 1 in front."""
    if stack.shape[0] == 1:
        return stack
    starts = (position, *[build.index(0)] * (stack.tensor.rank - 1))
    return build.dynamic_slice(stack, starts, (1, *stack.shape[1:]))


def put(stack: Node, value: Node, position: Node) -> Node:
    """The stack with an entry replaced; the value may lack the axis of 1 in front."""
    value = build.reshape(value, (1, *stack.shape[1:]))
    if stack.shape[0] == 1:
        return value
    starts = (position, *[build.index(0)] * (stack.tensor.rank - 1))
    return build.dynamic_update_slice(stack, value, starts)
