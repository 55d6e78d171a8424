"""Planning time by the size of the graph: a chain of attention-like layers, 100 to 10,000 nodes."""

from __future__ import annotations

import time
from statistics import median

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.op import Symbol
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.split.plan import best_cut, make_plan

LENGTH, WIDTH = 2_000, 16
LIMIT = 4_000_000
REPEATS = 3


def product(x: Node, y: Node, axes: tuple[int, int]) -> Node:
    """A matrix product that contracts these axes."""
    numbers = DotNumbers((), (), axes[:1], axes[1:])
    precision = (Symbol("precision", "DEFAULT"),) * 2
    attributes = {"dot_dimension_numbers": numbers, "precision_config": precision}
    return build.emit("dot_general", (x, y), attributes)


def layer(x: Node) -> Node:
    """softmax-like weights between all rows of x, applied to x: a [LENGTH, LENGTH] value inside."""
    weights = build.emit("exponential", (product(x, x, (1, 1)),))
    total = product(
        weights, build.broadcast(build.constant(1, TensorType("f32")), (LENGTH, 1)), (1, 0)
    )
    mixed = product(weights, x, (1, 0))
    scale = build.broadcast(build.reshape(total, (LENGTH,)), (LENGTH, WIDTH), (0,))
    return build.emit("tanh", (build.emit("divide", (mixed, scale)),))


def layers(count: int) -> Graph:
    (x,) = build.region_parameters([TensorType("f32", (LENGTH, WIDTH))])
    value = x
    for _ in range(count):
        value = layer(value)
    return Graph((x,), (value,))


def main() -> None:
    print(f"{'nodes':>8}{'loops':>8}{'one plan':>12}{'whole search':>15}{'us a node':>12}")
    for count in (10, 100, 400, 1250):
        graph = layers(count)
        nodes = len(topological(graph.outputs))
        times = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            plan = make_plan(graph, LIMIT // 4)
            times.append(time.perf_counter() - start)
        start = time.perf_counter()
        best_cut(graph, LIMIT)
        search = time.perf_counter() - start
        each = median(times) / nodes * 1e6
        print(
            f"{nodes:>8}{len(plan.loops):>8}{median(times):>10.3f} s{search:>13.3f} s{each:>12.0f}"
        )


if __name__ == "__main__":
    main()
