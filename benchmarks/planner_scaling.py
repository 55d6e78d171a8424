"""Planning time by the size of the graph, 100 to 10,000 nodes: a table, and a figure of it.

Two families: layers like attention, each made of the last, which are all cut together; and layers
with a Cholesky factor between them, each of which is cut for itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tf_memsafe.hlo import build
from tf_memsafe.hlo.garbage import collector_paused
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.op import Symbol
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.split.cheapest import best_cut
from tf_memsafe.split.plan import make_plan
from tf_memsafe.split.target import Target

LENGTH, WIDTH = 2_000, 16
LIMIT = 4_000_000
REPEATS = 3
FIGURE = Path(__file__).parent / "figures" / "planner_scaling.png"


class Row(NamedTuple):
    """One graph. plan, search: seconds of one plan (a median), and of looking for the cheapest."""

    nodes: int
    loops: int
    plan: float
    search: float


def product(x: Node, y: Node, axes: tuple[int, int]) -> Node:
    """A matrix product that contracts these axes."""
    numbers = DotNumbers((), (), axes[:1], axes[1:])
    precision = (Symbol("precision", "DEFAULT"),) * 2
    attributes = {"dot_dimension_numbers": numbers, "precision_config": precision}
    return build.emit("dot_general", (x, y), attributes)


def attention(x: Node) -> Node:
    """Weights between all rows of x, applied to x: a [LENGTH, LENGTH] value inside."""
    weights = build.emit("exponential", (product(x, x, (1, 1)),))
    ones = build.broadcast(build.constant(1, TensorType("f32")), (LENGTH, 1))
    total, mixed = product(weights, ones, (1, 0)), product(weights, x, (1, 0))
    scale = build.broadcast(build.reshape(total, (LENGTH,)), (LENGTH, WIDTH), (0,))
    return build.emit("tanh", (build.emit("divide", (mixed, scale)),))


def connected(count: int) -> Graph:
    (x,) = build.region_parameters([TensorType("f32", (LENGTH, WIDTH))])
    value = x
    for _ in range(count):
        value = attention(value)
    return Graph((x,), (value,))


def separate(count: int) -> Graph:
    types = TensorType("f32", (LENGTH, WIDTH)), TensorType("f32", (WIDTH, WIDTH))
    x, first = build.region_parameters(types)
    factor = first
    for _ in range(count):
        mixed = attention(product(x, factor, (1, 0)))
        gram = product(mixed, mixed, (0, 0))
        factor = build.emit("cholesky", (gram,), {"lower": True})
    return Graph((x, first), (factor,))


def measure(graph: Graph) -> Row:
    start = time.perf_counter()
    with collector_paused():
        best_cut(graph, Target(LIMIT))
    search = time.perf_counter() - start
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        plan = make_plan(graph, LIMIT // 4)
        times.append(time.perf_counter() - start)
    nodes = len(topological(graph.outputs))
    return Row(nodes, len(plan.loops), median(times), search)


FAMILIES: dict[str, tuple[Callable[[int], Graph], tuple[int, ...]]] = {
    "connected": (connected, (12, 125, 400, 1250)),
    "separate": (separate, (9, 90, 290, 910)),
}


def draw(results: dict[str, list[Row]]) -> None:
    """The figure, if matplotlib is there (the extra `bench` has it)."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        print("no figure: matplotlib is not installed")
        return
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot(xlabel="nodes", ylabel="seconds", xscale="log", yscale="log")
    for name, rows in results.items():
        nodes = [row.nodes for row in rows]
        axes.plot(nodes, [row.search for row in rows], "o-", label=f"{name}: search")
        axes.plot(nodes, [row.plan for row in rows], "s--", label=f"{name}: one plan")
    nodes = [row.nodes for row in results["connected"]]
    axes.plot(nodes, [count / 1000 for count in nodes], ":", color="grey", label="1 ms a node")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=150)
    print(f"figure: {FIGURE}")


def main() -> None:
    print(f"{'':12}{'nodes':>8}{'loops':>8}{'one plan':>12}{'search':>12}{'ms a node':>12}")
    results: dict[str, list[Row]] = {}
    for name, (make, counts) in FAMILIES.items():
        results[name] = []
        for count in counts:
            row = measure(make(count))
            results[name].append(row)
            each = 1000 * row.search / row.nodes
            times = f"{row.plan:>10.3f} s{row.search:>10.3f} s{each:>12.2f}"
            print(f"{name:12}{row.nodes:>8}{row.loops:>8}{times}", flush=True)
    draw(results)


if __name__ == "__main__":
    main()
