"""What reading, planning and writing cost beside XLA's own compile: GPflow's SGPR with gradient."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import tensorflow as tf
from _models import sgpr

from tf_memsafe import xla
from tf_memsafe.hlo.large_constants import lift_large_constants
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.reader import read
from tf_memsafe.hlo.simplify import simplify
from tf_memsafe.hlo.verify import verify
from tf_memsafe.hlo.writer import write
from tf_memsafe.rewrite.options import get_optimizer_options
from tf_memsafe.rewrite.pipeline import rewrite
from tf_memsafe.split.plan import make_plan, write_plan
from tf_memsafe.split.target import Target

LIMIT = 60_000_000
REPEATS = 7


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """The median of several runs, and the result."""
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return median(seconds), result


def main() -> None:
    function = tf.function(sgpr(20_000, 200), jit_compile=True).get_concrete_function()
    hlo, module = timed(lambda: xla.hlo_module(function, []))
    start = time.perf_counter()
    xla.measure(function, [])
    compiling = time.perf_counter() - start
    steps = {}
    steps["read"], (graph, _) = timed(lambda: lift_large_constants(simplify(read(module))))
    steps["verify"], _ = timed(lambda: verify(graph))
    options = get_optimizer_options()
    steps["rewrite"], rewritten = timed(lambda: rewrite(graph, options))
    graph = rewritten.graph
    steps["plan"], plan = timed(lambda: make_plan(graph, LIMIT // 4))
    steps["write loops"], split = timed(lambda: write_plan(plan, Target(LIMIT)))
    steps["write text"], text = timed(lambda: write(split.graph))
    print(
        f"{len(module.computations[-1].instructions)} instructions, "
        f"{len(topological(graph.outputs))} nodes, {len(plan.loops)} loops, "
        f"{len(text):,} characters"
    )
    for name, seconds in steps.items():
        print(f"  {name:12}{seconds * 1e3:>9.1f} ms")
    print(f"  {'together':12}{sum(steps.values()) * 1e3:>9.1f} ms (target: under 500)")
    print(f"TensorFlow's own lowering to HLO {hlo * 1e3:.1f} ms, XLA's compile {compiling:.2f} s")


if __name__ == "__main__":
    main()
