"""Columns that each step of a loop reads are taken out of their matrix before the loop."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.running import graph_of, run
from tests.rewrite.rewriting import rules
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node, Region
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite import elements
from tf_memsafe.rewrite.driver import Rewritten, apply_everywhere
from tf_memsafe.rewrite.maths import dot, transpose
from tf_memsafe.rewrite.pipeline import NAMES, rewrite
from tf_memsafe.rewrite.target import TARGET
from tf_memsafe.split.plan import make_plan, write_plan
from tf_memsafe.split.target import Target

X, V = (np.random.default_rng(0).normal(size=(1000, width)).astype("f4") for width in (3, 1))


@pytest.fixture(autouse=True)
def _however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elements, "FEWEST_ELEMENTS", 0)


def kernel_product(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    distances = tf.reduce_sum(tf.abs(x[:, None] - x[None]), -1)
    return tf.exp(-distances) @ v


def rows(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    """Each step reads rows of x, which lie side by side already."""
    return tf.map_fn(lambda row: tf.reduce_max(row * x[:5]) + v[0, 0], x)


def loop_over(value_of: Callable[[Node], Node]) -> Graph:
    """Three times adds a value of the captured x, which is transposed."""
    (x,) = build.region_parameters([TensorType("f32", X.shape)])
    state = [build.index(0), build.zeros(TensorType("f32", X.shape[::-1]))]
    tested, stepped = (build.region_parameters([each.tensor for each in state]) for _ in range(2))
    condition = Region(tested, (build.compare(tested[0], build.index(3), "LT"),))
    total = build.add(stepped[1], value_of(transpose(x, (1, 0))))
    body = Region(stepped, (build.add(stepped[0], build.index(1)), total), (x,))
    return Graph((x,), (build.while_loop(state, condition, body)[1],))


def in_loops(function: Callable[..., tf.Tensor]) -> Graph:
    graph = rewrite(graph_of(function, X, V), dict.fromkeys(NAMES, True)).graph
    return write_plan(make_plan(graph, 100_000), Target(150_000)).graph


def loops(graph: Graph) -> list[Node]:
    return [node for node in topological(graph.outputs) if node.name == "while"]


def finished(graph: Graph) -> Rewritten:
    return apply_everywhere(TARGET, graph)


def test_columns_are_captured() -> None:
    cut = in_loops(kernel_product)
    result = finished(cut)
    assert rules(result).count("columns_once") == len(loops(cut))
    for loop in loops(result.graph):
        body = loop.regions[1]
        columns = [each for each in body.captures if each.name == "slice"]
        assert [each.shape for each in columns] == [(1000, 1)] * 3
        inside = topological(body.results, {*body.parameters, *body.captures})
        assert not {*columns} & {*inside}
        assert {*body.captures} <= {used for node in inside for used in node.dependencies}


def test_what_is_transposed_is_captured() -> None:
    plain = loop_over(lambda y: build.multiply(y, y))
    result = finished(plain)
    assert rules(result) == ["columns_once"]
    (loop,) = loops(result.graph)
    assert [(each.name, each.shape) for each in loop.regions[1].captures] == [
        ("transpose", X.shape[::-1])
    ]
    (got,), (expected,) = (run(graph, [X]) for graph in (result.graph, plain))
    assert got.tobytes() == expected.tobytes()


def test_a_transposed_operand_of_a_product_is_left() -> None:
    square = build.zeros(TensorType("f32", (3, 3)))
    product = loop_over(lambda y: dot(square, y, DotNumbers((), (), (1,), (0,))))
    assert not finished(product).rewrites


def test_rows_are_left() -> None:
    graph = graph_of(rows, X, V)
    assert loops(graph)
    assert "columns_once" not in rules(finished(graph))


def test_numbers() -> None:
    cut = in_loops(kernel_product)
    (got,), (expected,) = (run(graph, [X, V]) for graph in (finished(cut).graph, cut))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6 * np.abs(V).sum())
