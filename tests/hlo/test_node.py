from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import pytest

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node, Region, Source, fresh_scope
from tf_memsafe.hlo.op import Symbol
from tf_memsafe.hlo.types import TensorType

F32 = TensorType("f32", (4,))
X, Y = build.region_parameters([F32, F32])


def random_numbers() -> Node:
    bounds = build.constant(0, TensorType("f32")), build.constant(1, TensorType("f32"))
    shape = build.constant([4], TensorType("i64", (1,)))
    attributes = {"rng_distribution": Symbol("rng_distribution", "UNIFORM")}
    return build.emit("rng", (*bounds, shape), attributes, type=F32)


def test_equal_nodes_are_one_object() -> None:
    assert build.add(X, Y) is build.add(X, Y)
    assert build.constant(1, F32) is build.constant([1, 1, 1, 1], F32)


@pytest.mark.parametrize(
    "other",
    [
        build.add(Y, X),
        build.multiply(X, Y),
        build.add(X, build.constant(1, F32)),
    ],
)
def test_nodes_that_differ_are_not_merged(other: Node) -> None:
    assert build.add(X, Y) is not other


def test_nodes_that_differ_in_an_attribute_are_not_merged() -> None:
    assert build.compare(X, Y, "LT") is not build.compare(X, Y, "GT")


def test_the_bits_of_a_constant_count() -> None:
    scalar = TensorType("f32")
    assert build.constant(0.0, scalar) is not build.constant(-0.0, scalar)
    assert build.constant(float("nan"), scalar) is build.constant(float("nan"), scalar)


def test_nodes_with_equal_regions_are_merged() -> None:
    scalar = TensorType("f32")
    x, y = build.region_parameters([scalar, scalar])
    zero = build.zeros(scalar)
    first, second = (
        build.emit("reduce", (X, zero), {"dimensions": (0,)}, regions=(region,))
        for region in (Region((x, y), (build.add(x, y),)), Region((x, y), (build.add(x, y),)))
    )
    assert first is second


def test_nodes_with_effects_never_merge() -> None:
    assert random_numbers() is not random_numbers()


def test_the_first_source_stays() -> None:
    scope = fresh_scope()
    x = build.parameter(0, F32, scope)
    first = build.emit("tanh", (x,), source=Source("Tanh", "here"))
    second = build.emit("tanh", (x,), source=Source("Tanh", "there"))
    assert first is second
    assert second.source == Source("Tanh", "here")


def test_attributes_cannot_be_changed() -> None:
    node = build.compare(X, Y, "LT")
    with pytest.raises(TypeError):
        node.attributes["comparison_direction"] = "GT"  # type: ignore[index]


def test_nodes_that_nobody_holds_are_freed() -> None:
    from tf_memsafe.hlo import node as module  # noqa: PLC0415

    gc.collect()
    before = len(module._interned)
    node = build.add(build.parameter(0, F32, fresh_scope()), Y)
    assert len(module._interned) == before + 2
    del node
    gc.collect()
    assert len(module._interned) == before


def test_threads_get_the_same_node() -> None:
    x = build.parameter(0, F32, fresh_scope())
    with ThreadPoolExecutor(4) as pool:
        nodes = list(pool.map(lambda _: build.add(x, x), range(100)))
    assert len(set(nodes)) == 1


def test_several_results_are_read_one_by_one() -> None:
    node = build.emit("optimization_barrier", (X, Y))
    assert [result.type for result in build.results(node)] == [F32, F32]
    with pytest.raises(AssertionError, match="several results"):
        _ = node.tensor
