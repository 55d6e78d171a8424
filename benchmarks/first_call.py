"""The first call: planning and compiling for a limit takes under 2.5 times XLA's own compilation.

Seconds here are those of a first call in a fresh process, less those of a later one. What is cut is
compiled once, for the proof and for the calls.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from _contenders import floor, ours, plain
from attention import sequences
from frame.agreement import different_neighbours
from frame.case import Case, Contender, Size
from frame.command import main
from frame.measure import Plan, measure
from kernel_product import SE, arguments
from knn import DIFFERENT, NEIGHBOURS, points
from sgpr import regression

ROUNDS = 3
SPEED = 1 / 2.5
SMALLER = {Size.FULL: 1, Size.QUICK: 2, Size.TINY: 10}
COUNT = {Size.FULL: 5, Size.QUICK: 2, Size.TINY: 1}


def cases(size: Size) -> Iterator[Case]:
    """Their limit is half of their matrices; as they are they fit into the machine."""
    n = 4_000 // SMALLER[size]
    kinds = [product, gradient, model, search, heads]
    for kind in kinds[: COUNT[size]]:
        yield kind(n)


def contenders(limit: int, work: str, module: str = "naive", **by_xla: Any) -> list[Contender]:
    """Ours, XLA by itself on the function as written, and on the program that ours makes of it."""
    alone = "our program, by XLA alone"
    part = floor(alone, "program", "compiled_alone", limit=limit, of=f"{module}.{work}")
    return [ours(limit, module), plain(SPEED, module, **by_xla), part]


def product(n: int) -> Case:
    data = partial(arguments, n, 10, "float32")
    name, options = f"K v, N = {n:,}, D = 10", {"name": SE}
    each = contenders(2 * n * n, "kernel_product")
    return Case(name, "kernel_product", each, data, options, tolerance=1e-3)


def gradient(n: int) -> Case:
    data = partial(arguments, n, 10, "float32")
    name, options = f"gradient of K v, N = {n:,}, D = 10", {"name": SE}
    each = contenders(2 * n * n, "kernel_gradient")
    return Case(name, "kernel_gradient", each, data, options, tolerance=1e-2)


def model(n: int) -> Case:
    data = partial(regression, 5 * n, 200)
    each = contenders(20_000 * n, "sgpr", "gpflow_models", jit=True)
    return Case(f"SGPR and gradient, N = {5 * n:,}, M = 200", "sgpr", each, data)


def search(n: int) -> Case:
    return Case(
        f"nearest neighbours, {n:,} x {5 * n:,}, D = 10",
        "knn",
        contenders(10 * n * n, "knn"),
        partial(points, n, 5 * n, 10),
        {"metric": "euclidean", "neighbours": NEIGHBOURS},
        agreement=different_neighbours,
        tolerance=DIFFERENT,
    )


def heads(n: int) -> Case:
    data, each = partial(sequences, n), contenders(16 * n * n, "attention")
    return Case(f"attention, T = {n:,}", "attention", each, data, tolerance=1e-3)


def first_calls(case: Case, plan: Plan) -> dict[str, Any]:
    """The case, with the first calls of several processes as its turns."""
    rounds = min(plan.rounds - 2, ROUNDS)
    rows = [measure(case, replace(plan, rounds=1)) for _ in range(max(1, rounds))]
    for i, outcome in enumerate(rows[0]["contenders"]):
        found = [row["contenders"][i] for row in rows]
        outcome["seconds"] = [
            max(0.0, each["first"] - each["seconds"][0]) for each in found if each["seconds"]
        ]
    return rows[0]


if __name__ == "__main__":
    sys.exit(main(__doc__, cases, first_calls))
