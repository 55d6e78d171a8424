"""How far two contenders' results are apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Results = Sequence[npt.NDArray[Any]]


def relative_difference(ours: Results, theirs: Results) -> float:
    """The largest difference in any result, over that result's largest value."""
    return max(_apart(a, b) for a, b in zip(ours, theirs, strict=True))


def _apart(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> float:
    if ours.size != theirs.size:
        return float("inf")
    difference = ours.reshape(-1).astype(float) - theirs.reshape(-1)
    apart = np.abs(difference).max() / max(float(np.abs(theirs).max()), 1e-300)
    return float(apart) if np.isfinite(apart) else float("inf")


def different_neighbours(ours: Results, theirs: Results) -> float:
    """The share of neighbours that are not in both; the indices are the last result.

    Rounding decides between points that are equally far, so that a few may differ.
    """
    rows = zip(ours[-1], theirs[-1], strict=True)
    return 1.0 - float(np.mean([np.isin(a, b).mean() for a, b in rows]))
