"""Runs graphs of products, solves and sums in NumPy: compiling a thousand takes too long."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.ops.structure import literal
from tf_memsafe.hlo.order import topological

ELEMENTWISE: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "divide": np.divide,
    "multiply": np.multiply,
    "negate": np.negative,
    "subtract": np.subtract,
}


def evaluate(graph: Graph, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    values = dict(zip(graph.parameters, arguments, strict=True))
    for node in topological(graph.outputs, values):
        values[node] = compute(node, [values[operand] for operand in node.operands])
        assert values[node].shape == node.shape
    return [values[output] for output in graph.outputs]


def compute(node: Node, operands: Sequence[np.ndarray]) -> np.ndarray:
    if node.name in ELEMENTWISE:
        return ELEMENTWISE[node.name](*operands)
    if node.name == "constant":
        return np.broadcast_to(literal(node)[0], node.shape)
    if node.name == "dot_general":
        return dot_general(node, *operands)
    if node.name == "triangular_solve":
        return triangular_solve(node, *operands)
    if node.name == "reshape":
        return operands[0].reshape(node.shape)
    if node.name == "transpose":
        return operands[0].transpose(node["permutation"])
    if node.name == "broadcast_in_dim":
        return broadcast(node, operands[0])
    assert node.name == "reduce"
    return operands[0].sum(node["dimensions"])


def broadcast(node: Node, x: np.ndarray) -> np.ndarray:
    axes = node["broadcast_dimensions"]
    x = x.transpose(np.argsort(axes)) if axes else x
    others = [axis for axis in range(node.tensor.rank) if axis not in axes]
    return np.broadcast_to(np.expand_dims(x, others), node.shape)


def dot_general(node: Node, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    numbers = node["dot_dimension_numbers"]
    left, right = list(range(lhs.ndim)), list(range(10, 10 + rhs.ndim))
    for axis, other in numbers.shared_axes():
        right[other] = left[axis]
    batch = [left[axis] for axis in numbers.lhs_batching]
    free = [left[a] for a in numbers.free_axes(0, lhs.ndim)]
    free += [right[a] for a in numbers.free_axes(1, rhs.ndim)]
    return np.einsum(lhs, left, rhs, right, [*batch, *free])


def triangular_solve(node: Node, triangle: np.ndarray, right: np.ndarray) -> np.ndarray:
    triangle = np.tril(triangle) if node["lower"] else np.triu(triangle)
    if node["unit_diagonal"]:
        size = triangle.shape[-1]
        triangle = np.where(np.eye(size, dtype=bool), 1, triangle)
    how = node["transpose_a"].value
    if how != "NO_TRANSPOSE":
        triangle = triangle.swapaxes(-1, -2)
    triangle = triangle.conj() if how == "ADJOINT" else triangle
    if node["left_side"]:
        return np.linalg.solve(triangle, right)
    return np.linalg.solve(triangle.swapaxes(-1, -2), right.swapaxes(-1, -2)).swapaxes(-1, -2)


def flops(graph: Graph) -> int:
    return sum(node.op.flops(node) for node in topological(graph.outputs))
