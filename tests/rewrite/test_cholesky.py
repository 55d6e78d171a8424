"""Cholesky factors by blocks: what XLA's own gives but for rounding, NaN in the same places."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hlo.running import run
from tests.rewrite.rewriting import reasons, rules
from tf_memsafe.executable import compile_graph
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite import cholesky
from tf_memsafe.rewrite.cholesky import cholesky_by_blocks
from tf_memsafe.rewrite.driver import Rewritten, apply
from tf_memsafe.rewrite.rule import Optimizer

FACTORS = Optimizer("factors", (cholesky_by_blocks,))
EPSILON = {"f32": 6e-8, "f64": 1.2e-16}


def graph(dtype: str, *shape: int, lower: bool = True) -> Graph:
    (matrix,) = build.region_parameters([TensorType(dtype, shape)])
    return Graph((matrix,), (build.emit("cholesky", (matrix,), {"lower": lower}),))


def positive(size: int, dtype: str) -> np.ndarray:
    """Of a condition number of about 5."""
    points = np.random.default_rng(size).normal(size=(size, size))
    return (points @ points.T / size + np.eye(size)).astype(build.NUMPY_DTYPES[dtype])


def both(matrix: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """The factor by blocks, and XLA's."""
    plain = graph(dtype, *matrix.shape)
    result = apply(FACTORS, plain)
    assert rules(result) == ["cholesky_by_blocks"]
    return run(result.graph, [matrix])[0], run(plain, [matrix])[0]


@pytest.mark.parametrize("dtype", EPSILON)
@pytest.mark.parametrize("size", [100, 128, 131])
def test_one_panel(size: int, dtype: str) -> None:
    found, expected = both(positive(size, dtype), dtype)
    # Each element is a sum of up to `size` products, for a well-conditioned matrix.
    np.testing.assert_allclose(found, expected, rtol=0, atol=size * EPSILON[dtype])


@pytest.mark.parametrize("size", [129, 192, 200])
def test_several_panels(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cholesky, "PANEL", 64)
    found, expected = both(positive(size, "f64"), "f64")
    np.testing.assert_allclose(found, expected, rtol=0, atol=size * EPSILON["f64"])


@pytest.mark.parametrize("panel", [64, 512])
@pytest.mark.parametrize("at", [0, 70, 129])
def test_all_is_nan_without_a_factor(at: int, panel: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cholesky, "PANEL", panel)
    matrix = positive(130, "f64")
    matrix[at, at] = -1
    found, expected = both(matrix, "f64")
    assert np.isnan(expected).all()
    assert np.isnan(found).all()


@pytest.mark.parametrize("panel", [64, 512])
def test_the_upper_half_is_not_read(panel: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cholesky, "PANEL", panel)
    matrix = positive(130, "f64")
    above = np.triu(np.full_like(matrix, np.nan), 1)
    found, _ = both(np.tril(matrix) + above, "f64")
    expected, _ = both(matrix, "f64")
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("size", "panel"), [(400, 512), (400, 200)])
def test_it_needs_hardly_more_memory(
    size: int, panel: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cholesky, "PANEL", panel)
    plain = graph("f64", size, size)
    by_blocks = compile_graph(apply(FACTORS, plain).graph).peak
    # Two copies of a panel are at work beside the matrix and the factor.
    panels = 2 * size * panel * 8 if size > panel else 0
    assert by_blocks <= compile_graph(plain).peak + panels


@pytest.mark.parametrize(("shape", "lower"), [((2, 128, 128), True), ((128, 128), False)])
def test_refuses(shape: tuple[int, ...], lower: bool) -> None:
    result = apply(FACTORS, graph("f64", *shape, lower=lower))
    assert not result.rewrites
    assert reasons(result) == {
        "cholesky_by_blocks": "only the lower factor of a single matrix is computed by blocks"
    }


@pytest.mark.parametrize(("dtype", "size"), [("f64", 99), ("complex<f64>", 128)])
def test_small_and_complex_matrices_are_left_without_a_word(dtype: str, size: int) -> None:
    plain = graph(dtype, size, size)
    assert apply(FACTORS, plain) == Rewritten(plain)
