"""GPflow's kernels and their gradients: which rules fire, what is left, and the numbers.

`pytest -rA tests/rewrite/test_gpflow_kernels.py` prints a line for each kernel: what fires, and the
largest tensor before and after.
"""

from __future__ import annotations

import numpy as np
import pytest
from gpflow import kernels

from tests.hlo.running import run
from tests.rewrite.gpflow_kernels import (
    CASES,
    COUNTS,
    VALUES,
    Case,
    isotropic,
    largest,
    points,
    traced,
    with_gradients,
)
from tf_memsafe.hlo.verify import verify
from tf_memsafe.rewrite.driver import Rewritten
from tf_memsafe.rewrite.options import get_optimizer_options
from tf_memsafe.rewrite.pipeline import rewrite

N, M = COUNTS


def rewritten(case: Case, name: str, batch: tuple[int, ...] = ()) -> Rewritten:
    """One of the kernel's values with its gradients, rewritten; a line about it is printed."""
    kernel = case.make()
    count, function = VALUES[name]
    arguments = [points(case, n, batch) for n in COUNTS[:count]]
    graph, _, _ = traced(with_gradients(kernel, function(kernel)), arguments)
    result = rewrite(graph, get_optimizer_options())
    verify(result.graph)
    fired = sorted(rules(result)) or ["nothing"]
    print(f"{largest(graph):>9,} -> {largest(result.graph):>7,} elements; {', '.join(fired)}")
    return result


def rules(result: Rewritten) -> set[str]:
    """The rules that fired, but for the canonical ones."""
    return {each.rule for each in result.rewrites if each.optimizer != "canonical"}


def why_left(result: Rewritten) -> set[str]:
    return {each.reason for each in result.refusals if each.optimizer == "distance"}


@pytest.mark.parametrize("name", CASES)
def test_no_tensor_of_all_differences_is_left(name: str) -> None:
    case = CASES[name]
    result = rewritten(case, "K(X, X2)")
    assert rules(result) >= case.fires
    if case.left is None:
        assert largest(result.graph) <= case.matrices * N * M
    else:
        assert case.left in why_left(result)
        assert largest(result.graph) == N * M * case.dimension


@pytest.mark.parametrize("name", CASES)
def test_nor_is_one_of_points_with_themselves(name: str) -> None:
    case = CASES[name]
    result = rewritten(case, "K(X)")
    assert case.left or largest(result.graph) <= case.matrices * N * N


@pytest.mark.parametrize("name", CASES)
def test_a_diagonal_takes_no_matrix(name: str) -> None:
    result = rewritten(CASES[name], "K_diag(X)")
    # Per point: its coordinates, a few patches with each other, a few outputs with each other.
    assert largest(result.graph) <= 50 * 64


@pytest.mark.parametrize("name", ["SquaredExponential, ARD", "Matern52", "Cosine", "Periodic"])
def test_batches_of_points(name: str) -> None:
    result = rewritten(CASES[name], "K(X, X2)", (2,))
    assert largest(result.graph) <= 2 * N * 2 * M


@pytest.mark.parametrize("name", ["SquaredExponential", "Periodic", "Cosine"])
def test_in_few_dimensions_the_differences_stay_or_come_back(name: str) -> None:
    makers = {
        "SquaredExponential": (kernels.SquaredExponential, "product_form", 3),
        "Periodic": (lambda: kernels.Periodic(isotropic()), "sum_of_differences", 3),  # gradients
        "Cosine": (kernels.Cosine, "sum_of_differences", 1),  # without a matrix product
    }
    make, fires, width = makers[name]
    result = rewritten(Case(make, dimension=3), "K(X, X2)")
    assert ",".join(rules(result)) == fires
    assert largest(result.graph) == N * M * width
    assert width == 1 or "in 3 dimensions the differences are faster" in why_left(result)


@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str) -> None:
    case, kernel = CASES[name], CASES[name].make()
    arguments = [points(case, n) for n in COUNTS]

    def all_values(x: object, x2: object) -> list[object]:
        pair, own = (VALUES[which][1](kernel) for which in ("K(X, X2)", "K_diag(X)"))
        return [*with_gradients(kernel, pair)(x, x2), *with_gradients(kernel, own)(x)]

    graph, everything, compiled = traced(all_values, arguments)
    result = rewrite(graph, get_optimizer_options())
    assert [output.type for output in result.graph.outputs] == [o.type for o in graph.outputs]
    for got, expected in zip(run(result.graph, everything), compiled(*arguments), strict=True):
        scale = np.abs(expected).max()
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-8 * scale)
