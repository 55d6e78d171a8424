"""What bringing a graph into canonical form costs: the target is 50 ms for 1,000 nodes."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
from _models import sgpr

from tf_memsafe import xla
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.reader import read
from tf_memsafe.hlo.simplify import simplify
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.canonical import CANONICAL
from tf_memsafe.rewrite.driver import apply
from tf_memsafe.rewrite.maths import filled

REPEATS = 15


def graph_of(function: Callable[..., Any]) -> Graph:
    concrete = tf.function(function, jit_compile=True, autograph=False).get_concrete_function()
    return simplify(read(xla.hlo_module(concrete, [])))


def model() -> Graph:
    """GPflow's SGPR with its gradient."""
    return graph_of(sgpr(2000, 50))


def kernels() -> Graph:
    """A sum of GPflow's kernels with its gradient."""
    kinds = [
        gpflow.kernels.SquaredExponential,
        gpflow.kernels.Matern32,
        gpflow.kernels.Matern52,
        gpflow.kernels.RationalQuadratic,
        gpflow.kernels.ArcCosine,
        gpflow.kernels.Polynomial,
    ]
    total = gpflow.kernels.Sum([kind() for kind in (*kinds, *kinds)])
    points = np.random.default_rng(0).normal(size=(300, 5))

    def value_and_gradient() -> Any:
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(tf.sin(total(points)))
        return value, tape.gradient(value, total.trainable_variables)

    return graph_of(value_and_gradient)


def chain() -> Graph:
    """Elementwise ops with reshapes between."""
    (x,) = build.region_parameters([TensorType("f32", (64, 64))])
    y = x
    for _ in range(250):
        y = build.multiply(build.emit("tanh", (y,)), filled(2, y, y.shape))
        y = build.reshape(build.reshape(y, (4096,)), (64, 64))
    return Graph((x,), (y,))


GRAPHS = {"SGPR and gradient": model, "kernels and gradient": kernels, "elementwise": chain}


def seconds(graph: Graph) -> float:
    start = time.perf_counter()
    apply(CANONICAL, graph)
    return time.perf_counter() - start


def main() -> None:
    print(f"{'':22}{'nodes':>7}{'after':>7}{'ms':>8}{'ms per 1,000':>14}")
    for name, make in GRAPHS.items():
        graph = make()
        before = len(topological(graph.outputs))
        after = len(topological(apply(CANONICAL, graph).graph.outputs))
        taken = 1e3 * median(seconds(graph) for _ in range(REPEATS))
        print(f"{name:22}{before:>7}{after:>7}{taken:>8.1f}{1e3 * taken / before:>14.1f}")


if __name__ == "__main__":
    main()
