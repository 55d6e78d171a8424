"""Applies optimizers to the graphs of TensorFlow functions, for the tests of their rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tests.hlo.running import graph_of, run
from tests.programs import compiled
from tf_memsafe import xla
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.reader import read
from tf_memsafe.hlo.show import show
from tf_memsafe.hlo.verify import verify
from tf_memsafe.rewrite.canonical import CANONICAL
from tf_memsafe.rewrite.driver import Rewritten, apply
from tf_memsafe.rewrite.rule import Optimizer


def graph_for(function: Callable[..., Any], *specs: tf.TensorSpec) -> Graph:
    """The graph of a function for arguments of these types; nothing is allocated."""
    concrete = compiled(function).get_concrete_function(*specs)
    return read(xla.hlo_module(concrete, list(specs)))


def rewritten(
    optimizer: Optimizer, function: Callable[..., Any], *specs: tf.TensorSpec
) -> Rewritten:
    """What the optimizer makes of a function's graph, once that is in canonical form."""
    return apply(optimizer, apply(CANONICAL, graph_for(function, *specs)).graph)


def shown(graph: Graph) -> list[str]:
    """The graph line by line, without comments and the bodies of reducers."""
    lines = [line.partition("  #")[0] for line in show(graph).splitlines()]
    return [line.strip() for line in lines if not line.startswith("    ")]


def rules(result: Rewritten) -> list[str]:
    """The rules that fired, in order."""
    return [each.rule for each in result.rewrites]


def largest(result: Rewritten) -> int:
    """Elements of the largest tensor that is left."""
    return max(type_.size for node in topological(result.graph.outputs) for type_ in node.results)


def tidied(optimizer: Optimizer, function: Callable[..., Any], *specs: tf.TensorSpec) -> list[str]:
    """The lines of what the optimizer makes of a function, in canonical form again."""
    return shown(apply(CANONICAL, rewritten(optimizer, function, *specs).graph).graph)


def reasons(result: Rewritten) -> dict[str, str]:
    """Why each rule that refused did."""
    return {each.rule: each.reason for each in result.refusals}


def both(
    optimizer: Optimizer, function: Callable[..., Any], *arguments: Any
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Each result of the function rewritten, and of the function as written, both by XLA.

    At least one rule has to fire.
    """
    original = graph_of(function, *arguments)
    result = apply(optimizer, apply(CANONICAL, original).graph)
    assert optimizer is CANONICAL or result.rewrites
    verify(result.graph)
    return list(zip(run(result.graph, arguments), run(original, arguments), strict=True))


def assert_same_bits(optimizer: Optimizer, function: Callable[..., Any], *arguments: Any) -> None:
    """The same numbers, signs of zeros included, and NaN in the same places."""
    for got, expected in both(optimizer, function, *arguments):
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(wide(got), wide(expected))
        if expected.dtype.kind not in "biuc":
            np.testing.assert_array_equal(np.signbit(wide(got)), np.signbit(wide(expected)))


def assert_close(
    optimizer: Optimizer, tolerance: float, function: Callable[..., Any], *arguments: Any
) -> None:
    """The same numbers up to `tolerance` of the largest, and NaN and inf in the same places."""
    for got, expected in both(optimizer, function, *arguments):
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        finite = wide(expected)[np.isfinite(wide(expected))]
        scale = np.abs(finite).max(initial=0)
        np.testing.assert_allclose(
            wide(got), wide(expected), rtol=tolerance, atol=tolerance * scale
        )


def wide(array: np.ndarray) -> np.ndarray:
    """Floats of any width as f64: NumPy knows no NaN of bfloat16."""
    return array if array.dtype.kind in "biuc" else array.astype(np.float64)


def special(array: np.ndarray, values: Sequence[float]) -> np.ndarray:
    """The array with these values (NaN, inf) at its first positions of each kind."""
    changed = array.copy()
    for index, value in enumerate(values):
        changed[(index,) * array.ndim] = value
    return changed
