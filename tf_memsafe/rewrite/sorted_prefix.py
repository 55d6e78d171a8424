"""The first elements of a descending sort => top_k, of which chunks can be merged."""

from __future__ import annotations

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node, Region
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.rebuild import remake


def sorted_prefixes_to_top_k(graph: Graph) -> Graph:
    """slice(sort(x, iota))[..., :k] => top_k(x, k), as tf.math.top_k arrives from TensorFlow.

    Exact: the same values and indices, the lower index first among equals.
    """
    new: dict[Node, Node] = {}
    for node in topological(graph.outputs):
        new[node] = _top_k(remake(node, new))
    return Graph(graph.parameters, tuple(new[output] for output in graph.outputs))


def _top_k(node: Node) -> Node:
    if node.name != "slice" or not _is_prefix(node):
        return node
    sliced = node.operands[0]
    sort = sliced.operands[0] if sliced.name == "get_tuple_element" else sliced
    if sort.name != "sort" or not _sorts_down(sort):
        return node
    top = build.emit("top_k", sort.operands[:1], {"k": node.shape[-1]}, source=node.source)
    return build.results(top)[sliced["index"] if sliced is not sort else 0]


def _is_prefix(node: Node) -> bool:
    """Whether a slice takes the first elements of the last axis, and the other axes whole."""
    whole = node.operands[0].shape[:-1] == node.shape[:-1]
    return whole and not any(node["start_indices"]) and set(node["strides"]) <= {1}


def _sorts_down(sort: Node) -> bool:
    """Whether it sorts the last axis, largest first, alone or with the elements' positions."""
    values = sort.operands[0]
    last = values.tensor.rank - 1
    if sort["dimension"] != last or not _is_greater_than(sort.regions[0], values.dtype):
        return False
    if len(sort.operands) == 1:
        return values.dtype.lstrip("u").startswith("i")  # equal integers cannot be told apart
    positions = sort.operands[1]
    counts = positions.name == "iota" and positions["iota_dimension"] == last
    return len(sort.operands) == 2 and counts and positions.dtype == "i32" and sort["is_stable"]


def _is_greater_than(region: Region, dtype: str) -> bool:
    (result,) = region.results
    if result.name != "compare" or result.operands != region.parameters[:2]:
        return False
    greater = result["comparison_direction"].value == "GT"
    return greater and ("f" not in dtype or result["compare_type"].value == "TOTALORDER")
