"""What planning a long chain of matrix products takes: 72 random matrices, and 72 of one size."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from random import Random
from statistics import median
from typing import Any

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.ops.dot import DotNumbers
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.chain import CHAIN
from tf_memsafe.rewrite.chain_plan import plan_chain
from tf_memsafe.rewrite.chain_reader import Chain
from tf_memsafe.rewrite.driver import apply
from tf_memsafe.rewrite.maths import dot
from tf_memsafe.rewrite.rule import Uses

LINKS = 72
REPEATS = 15
TARGET = 50
"""Milliseconds."""


def chain(sizes: list[int]) -> Graph:
    """A product from left to right of matrices of sizes[0] x sizes[1], sizes[1] x sizes[2], ..."""
    shapes = pairwise(sizes)
    parameters = build.region_parameters([TensorType("f32", shape) for shape in shapes])
    product = parameters[0]
    for parameter in parameters[1:]:
        product = dot(product, parameter, DotNumbers((), (), (1,), (0,)))
    return Graph(parameters, (product,))


def milliseconds(call: Callable[[], Any]) -> float:
    """The median of several runs."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return median(times) * 1e3


def main() -> None:
    random = Random(0)
    chains = {
        "random sizes": chain([random.randint(1, 1000) for _ in range(LINKS + 1)]),
        "one size, all orders equal": chain([100] * (LINKS + 1)),
    }
    print(f"{LINKS} matrices{'':24}{'plan':>10}{'read, plan, write':>20}")
    for name, graph in chains.items():
        read = Chain(graph.outputs[0], Uses())
        plan = milliseconds(lambda read=read: plan_chain(read.sizes(), read.order))
        whole = milliseconds(lambda graph=graph: apply(CHAIN, graph))
        print(f"  {name:33}{plan:>7.1f} ms{whole:>17.1f} ms (target: a plan in {TARGET})")


if __name__ == "__main__":
    main()
