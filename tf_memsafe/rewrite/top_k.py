"""top_k: the k largest of many, on a back end that sorts all of them to find those.

XLA's CPU back end has a call of its own for f32 alone, which goes through a row once, on one
thread; for other dtypes it sorts the row, calling the comparison for each pair. All rules give the
results of the plain op to the last bit: the same order (`total_order`), and the lower index first
among equals. What the operand holds is read twice: where XLA computes it anew for each reading, it
is as exact as that is repeatable.

Measured by benchmarks/rewrites.py.
"""

from __future__ import annotations

from functools import cache
from math import prod

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node, Region
from tf_memsafe.hlo.ops.gather import IndexNumbers
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.maths import filled, integer_range, slice_axis, sum_over
from tf_memsafe.rewrite.rule import Optimizer, Outcome, Skip, rule
from tf_memsafe.rewrite.sorted_slice import SORTED_SLICE
from tf_memsafe.rewrite.total_order import (
    as_f32,
    fits_f32,
    from_f32,
    from_order_key,
    has_order,
    order_key,
)

GROUP_SIZE = 8
"""Elements of one group. XLA unrolls and vectorises a reduction of 8 of any dtype, and of 32 of
some. Larger groups come of grouping the maxima again, as often as n and k make that worth while."""

LEAST_SAVING = 2
"""How many times fewer elements have to be left to look through than there are."""

FEWEST_ELEMENTS = 10_000
"""Of all rows. Below it the calls themselves take the time."""

FEWEST_SORTED = 500
"""The same for 64-bit dtypes, whose calls sort."""

MOST_COUNTED = 128
"""Elements of a row of a 64-bit dtype that are compared each with each. It takes the time of their
number squared: of several hundred, as long as sorting them."""


@rule("get_tuple_element")
def top_k_by_groups(node: Node) -> Outcome:
    """top_k(x, k) => the top k in the k groups of x with the largest maxima, for any k and dtype

    An element of another group is not among them: each of those k groups has one that comes before
    it, a larger one or an equal one of a lower index. The groups are put back in their order, so
    that the index decides among equals as before. What is left over when x is cut into groups is
    looked through as well.
    """
    top = node.operands[0]
    if top.name != "top_k" or not top["k"] or not has_order(top.operands[0].dtype):
        return None
    (x,), k = top.operands, top["k"]
    if x.tensor.size < _fewest(x.dtype):
        return None
    n = x.shape[-1]
    if LEAST_SAVING * (n // GROUP_SIZE + GROUP_SIZE * k + n % GROUP_SIZE) > n:
        return Skip(f"{k} groups are too large a part of {n} elements")
    values, positions = _by_groups(_rows(x), k)
    return build.reshape((values, positions)[node["index"]], node.shape)


@rule("get_tuple_element")
def top_k_as_f32(node: Node) -> Outcome:
    """top_k(x) => top_k of f32 numbers in the same order, for x of at most 32 bits"""
    top = node.operands[0]
    if top.name != "top_k" or not fits_f32(top.operands[0].dtype):
        return None
    (x,), k = top.operands, top["k"]
    if x.dtype == "f32" or not k:
        return None
    if LEAST_SAVING * k > x.shape[-1]:
        return Skip(f"{k} of {x.shape[-1]} elements are found as fast by sorting all")
    values, positions = _top_k(as_f32(x), k)
    return positions if node["index"] else from_f32(values, x.dtype)


@rule("get_tuple_element")
def top_k_by_ranks(node: Node) -> Outcome:
    """top_k(x, k) => the elements that at most k - 1 others come before, for short 64-bit rows"""
    top = node.operands[0]
    if top.name != "top_k" or not top["k"] or not _is_sorted(top.operands[0].dtype):
        return None
    (x,), k = top.operands, top["k"]
    if x.tensor.size < FEWEST_SORTED:
        return None
    if x.shape[-1] > MOST_COUNTED:
        return Skip(f"{x.shape[-1]} elements are too many to compare each with each")
    values, positions = _by_ranks(_rows(x), k)
    return build.reshape((values, positions)[node["index"]], node.shape)


TOP_K = Optimizer("top_k", (*SORTED_SLICE.rules, top_k_by_groups, top_k_as_f32, top_k_by_ranks))
"""With the rules for slices, for what is sorted inside a user's loop."""


def _is_sorted(dtype: str) -> bool:
    """Whether the back end sorts, and `top_k_as_f32` cannot spare it that."""
    return has_order(dtype) and not fits_f32(dtype)


def _fewest(dtype: str) -> int:
    return FEWEST_SORTED if _is_sorted(dtype) else FEWEST_ELEMENTS


def _rows(x: Node) -> Node:
    return build.reshape(x, (prod(x.shape[:-1]), x.shape[-1]))


def _top_k(x: Node, k: int) -> tuple[Node, Node]:
    values, positions = build.results(build.emit("top_k", (x,), {"k": k}))
    return values, positions


def _by_groups(x: Node, k: int) -> tuple[Node, Node]:
    """The values and positions of each row's top k."""
    rows, n = x.shape
    groups = n // GROUP_SIZE
    whole = slice_axis(x, 1, 0, groups * GROUP_SIZE)
    maxima = _largest(build.reshape(whole, (rows, groups, GROUP_SIZE)))
    chosen = _sorted(_top_k(maxima, k)[1])
    starts = build.multiply(chosen, filled(GROUP_SIZE, chosen, chosen.shape))
    candidates = build.reshape(_windows(x, starts, GROUP_SIZE), (rows, k * GROUP_SIZE))
    positions = build.reshape(_counted_from(starts), (rows, k * GROUP_SIZE))
    if rest := n % GROUP_SIZE:
        candidates = _joined(candidates, slice_axis(x, 1, n - rest, n))
        positions = _joined(positions, _counted(rows, n - rest, n))
    values, found = _top_k(candidates, k)
    return values, build.reshape(_windows(positions, found, 1), found.shape)


def _by_ranks(x: Node, k: int) -> tuple[Node, Node]:
    """The values and positions of each row's top k, by how many others come before an element."""
    key = _filled_up(order_key(x))
    rows, n = key.shape
    shape = (rows, k, *_tiles(n))
    ranks = build.broadcast(build.reshape(_ranks(key), (rows, *_tiles(n))), shape, (0, 2, 3))
    found = build.compare(ranks, _iota(1, shape), "EQ")
    places = build.broadcast(build.reshape(_iota(0, (n,)), _tiles(n)), shape, (2, 3))
    chosen = build.emit("select", (found, places, filled(0, places, shape)))
    positions = sum_over(chosen, (2, 3))
    return build.reshape(_windows(x, positions, 1), positions.shape), positions


def _ranks(key: Node) -> Node:
    """How many elements of its row come before each: larger ones, and equal ones to its left."""
    rows, n = key.shape
    shape = (rows, n, *_tiles(n))
    element = build.broadcast(key, shape, (0, 1))
    other = build.broadcast(build.reshape(key, (rows, *_tiles(n))), shape, (0, 2, 3))
    left = build.compare(_iota(1, (n, n)), _iota(0, (n, n)), "LT")
    left = build.broadcast(build.reshape(left, (n, *_tiles(n))), shape, (1, 2, 3))
    equal = build.emit("and", (build.compare(other, element, "EQ"), left))
    before = build.emit("or", (build.compare(other, element, "GT"), equal))
    return sum_over(build.convert(before, "i32"), (2, 3))


def _tiles(n: int) -> tuple[int, int]:
    """An axis as two: of more than 32 elements, XLA would store what it is to sum."""
    return n // GROUP_SIZE, GROUP_SIZE


def _filled_up(key: Node) -> Node:
    """Rows that fall apart into groups; what is added comes after all else."""
    rows, n = key.shape
    limits = integer_range(key.dtype)
    assert limits is not None
    added = -n % GROUP_SIZE
    return _joined(key, filled(limits[0], key, (rows, added))) if added else key


def _largest(x: Node) -> Node:
    """The largest along the last axis, in the order of sorting: NaN as well."""
    key = order_key(x)
    limits = integer_range(key.dtype)
    assert limits is not None
    initial = build.constant(limits[0], TensorType(key.dtype))
    dimensions = {"dimensions": (x.tensor.rank - 1,)}
    regions = (_larger(key.dtype),)
    largest = build.emit("reduce", (key, initial), dimensions, regions=regions)
    return from_order_key(largest, x.dtype)


def _sorted(x: Node) -> Node:
    attributes = {"dimension": 1, "is_stable": False}
    return build.emit("sort", (x,), attributes, regions=(_ascending(x.dtype),))


def _windows(x: Node, starts: Node, size: int) -> Node:
    """`size` elements of each row from each of its starts on: [rows, starts, size]."""
    numbers = IndexNumbers("gather", (2,), (), (0,), (0,), (1,), 2)
    attributes = {
        "dimension_numbers": numbers,
        "slice_sizes": (1, size),
        "indices_are_sorted": False,
    }
    return build.emit("gather", (x, build.reshape(starts, (*starts.shape, 1))), attributes)


def _counted_from(starts: Node) -> Node:
    """The positions of the elements of groups: [rows, groups, GROUP_SIZE]."""
    shape = (*starts.shape, GROUP_SIZE)
    return build.add(build.broadcast(starts, shape, (0, 1)), _iota(2, shape))


def _counted(rows: int, start: int, limit: int) -> Node:
    numbers = _iota(1, (rows, limit - start))
    return build.add(numbers, filled(start, numbers, numbers.shape))


def _iota(axis: int, shape: tuple[int, ...]) -> Node:
    return build.iota(axis, TensorType("i32", shape))


def _joined(x: Node, y: Node) -> Node:
    return build.emit("concatenate", (x, y), {"dimension": 1})


# Regions are made once for each dtype, so that what uses them is one node where it is the same.


@cache
def _larger(dtype: str) -> Region:
    x, y = parameters = build.region_parameters([TensorType(dtype)] * 2)
    return Region(parameters, (build.emit("maximum", (x, y)),))


@cache
def _ascending(dtype: str) -> Region:
    x, y = parameters = build.region_parameters([TensorType(dtype)] * 2)
    return Region(parameters, (build.compare(x, y, "LT"),))
