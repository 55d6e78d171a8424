"""From how many coordinates on a matrix product is faster than the differences themselves.

Both limits are of XLA's CPU back end; benchmarks/rewrites.py measures them.
"""

from __future__ import annotations

from tf_memsafe.rewrite.rule import Skip

SMALLEST_DIMENSION = 6
"""Of points whose distances are faster as a matrix product (DESIGN, section 2)."""

LARGEST_DIFFERENCE = 4
"""The most coordinates for which the differences are faster. In between, where there is little in
it, all stays as it was written."""


def product_refusal(dtype: str, dimension: int) -> Skip | None:
    """Why sums of differences of points of so many coordinates are not made matrix products."""
    if dimension < SMALLEST_DIMENSION:
        return Skip(f"in {dimension} dimensions the differences are faster")
    return dtype_refusal(dtype)


def difference_refusal(dtype: str, dimension: int) -> Skip | None:
    """Why matrix products of points of so many coordinates are not made sums of differences."""
    if dimension > LARGEST_DIFFERENCE or dimension >= SMALLEST_DIMENSION:
        return Skip(f"in {dimension} dimensions the product is not slower")
    return dtype_refusal(dtype)


def dtype_refusal(dtype: str) -> Skip | None:
    return None if dtype in ("f32", "f64") else Skip(f"{dtype} has too few digits for it")
