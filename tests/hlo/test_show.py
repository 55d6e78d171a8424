from __future__ import annotations

from tests.hlo.ops.makers import dot
from tests.hlo.test_verify import adder, counting_loop, total
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Source
from tf_memsafe.hlo.show import show, size_text
from tf_memsafe.hlo.types import TensorType


def test_a_line_for_each_node() -> None:
    x, y = build.region_parameters([TensorType("f32", (100, 20)), TensorType("f32", (20, 200))])
    product = build.emit(
        "dot_general", (x, y), dot((), (), (1,), (0,)), source=Source("MatMul", "model/MatMul")
    )
    half = build.constant(0.5, product.tensor)
    assert show(Graph((x, y), (build.multiply(product, half),))) == (
        "graph(%1: f32[100,20], %2: f32[20,200]):\n"
        "  %3 = dot_general(%1, %2) contract [1]x[0] : f32[100,200]  # 80.0 kB  MatMul\n"
        "  %4 = constant() 0.5 : f32[100,200]  # 80.0 kB\n"
        "  %5 = multiply(%3, %4) : f32[100,200]  # 80.0 kB\n"
        "  return %5\n"
    )


def test_regions_are_indented() -> None:
    (x,) = build.region_parameters([TensorType("f32", (4,))])
    graph = Graph((x,), (total(x, adder()), counting_loop(x)[1]))
    assert show(graph, lambda _: None) == (
        "graph(%1: f32[4]):\n"
        "  %2 = constant() 0.0 : f32[]  # 4 B\n"
        "  %3 = reduce(%1, %2) dimensions=[0] : f32[]  # 4 B\n"
        "    region(%4: f32[], %5: f32[]):\n"
        "      %6 = add(%4, %5) : f32[]  # 4 B\n"
        "      return %6\n"
        "  %7 = constant() 0 : i32[]  # 4 B\n"
        "  %8 = constant() 0.0 : f32[4]  # 16 B\n"
        "  %9 = while(%7, %8) : i32[], f32[4]  # 20 B\n"
        "    condition(%10: i32[], %11: f32[4]):\n"
        "      %12 = constant() 3 : i32[]  # 4 B\n"
        "      %13 = compare(%10, %12) LT : i1[]  # 1 B\n"
        "      return %13\n"
        "    body(%14: i32[], %15: f32[4]):\n"
        "      %16 = constant() 1 : i32[]  # 4 B\n"
        "      %17 = add(%14, %16) : i32[]  # 4 B\n"
        "      %18 = add(%15, %1) : f32[4]  # 16 B\n"
        "      return %17, %18\n"
        "  return %3, %9.1\n"
    )


def test_a_source_is_shown_as_the_caller_locates_it() -> None:
    (x,) = build.region_parameters([TensorType("f32", (4,))])
    node = build.emit("tanh", (x,), source=Source("Tanh", "layer/tanh"))
    text = show(Graph((x,), (node,)), lambda source: f"model.py:7 ({source.op_name})")
    assert "# 16 B  model.py:7 (layer/tanh)\n" in text


def test_long_constants_are_not_written_out() -> None:
    short = build.constant([1, 2, 3], TensorType("i32", (3,)))
    long = build.constant(range(100), TensorType("i32", (100,)))
    text = show(Graph((), (short, long)))
    assert "constant() [1,2,3] : i32[3]" in text
    assert "constant() ... : i32[100]" in text


def test_sizes_are_for_people() -> None:
    assert [size_text(size) for size in (0, 999, 1500, 27e9, 5e12)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "27.0 GB",
        "5.0 TB",
    ]
