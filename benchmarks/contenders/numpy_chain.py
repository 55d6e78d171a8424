"""NumPy's product of many matrices, which plans its order at each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def chain(data: dict[str, Any]) -> Callable[[], Any]:
    matrices = [data[name] for name in sorted(data)]
    return lambda: np.linalg.multi_dot(matrices)
