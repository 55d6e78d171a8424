"""canonical, of order: the first of what is sorted are top_k."""

from __future__ import annotations

from collections.abc import Iterator

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node, Region
from tf_memsafe.rewrite.driver import apply_everywhere
from tf_memsafe.rewrite.rule import Optimizer, Outcome, Skip, Uses, rule_with_uses


@rule_with_uses("slice")
def sorted_prefix(node: Node, uses: Uses) -> Outcome:
    """sort(x)[..., :k] => top_k(x, k), as tf.math.top_k arrives from TensorFlow

    The same values and indices, the lower index first among equals. Also top_k(x, n)[..., :k].
    """
    sliced = node.operands[0]
    order = sliced.operands[0] if sliced.name == "get_tuple_element" else sliced
    if order.name not in ("sort", "top_k"):
        return None
    if not _is_prefix(node):
        return Skip("it takes other elements than the first of the last axis")
    if order.name == "sort" and not _sorts_down(order):
        return Skip("it is not a descending sort of values, alone or with their positions")
    users = list(_users(order, uses))
    whole = any(user.name != "slice" for user in users)
    if whole or not uses.results.isdisjoint((order, *build.results(order))):
        return Skip("all that is sorted is used as well")
    k = max([node.shape[-1], *(user.shape[-1] for user in users if _is_prefix(user))])
    if order.name == "top_k" and k == order["k"]:
        return None
    top = build.emit("top_k", order.operands[:1], {"k": k}, source=node.source)
    values = build.results(top)[sliced["index"] if sliced is not order else 0]
    return values if values.shape == node.shape else build.prefix(values, node.shape[-1])


def _is_prefix(node: Node) -> bool:
    """Whether a slice takes the first elements of the last axis, and the other axes whole."""
    whole = node.operands[0].shape[:-1] == node.shape[:-1]
    return whole and not any(node["start_indices"]) and set(node["strides"]) <= {1}


def _users(order: Node, uses: Uses) -> Iterator[Node]:
    """Who uses the values or the indices."""
    for element in build.results(order):
        yield from uses.users.get(element, [])


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


def with_top_k(graph: Graph) -> Graph:
    """The graph with top_k where it says sort and takes the first, as XLA compiles it anyway."""
    return apply_everywhere(Optimizer("canonical", (sorted_prefix,)), graph).graph
