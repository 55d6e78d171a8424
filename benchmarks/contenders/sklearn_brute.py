"""scikit-learn's exact search, by all cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.neighbors import NearestNeighbors


def knn(data: dict[str, Any], metric: str, neighbours: int) -> Callable[[], Any]:
    search = NearestNeighbors(
        n_neighbors=neighbours, algorithm="brute", metric=metric, n_jobs=-1
    ).fit(data["points"])
    queries = data["queries"]
    return lambda: search.kneighbors(queries)
