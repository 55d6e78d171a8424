"""opt_einsum on NumPy arrays, its order planned once, by dynamic programming."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import opt_einsum


def chain(data: dict[str, Any]) -> Callable[[], Any]:
    matrices = [data[name] for name in sorted(data)]
    axes = [opt_einsum.get_symbol(i) for i in range(len(matrices) + 1)]
    inputs = ",".join(map("".join, pairwise(axes)))
    shapes = [matrix.shape for matrix in matrices]
    formula = f"{inputs}->{axes[0]}{axes[-1]}"
    product = opt_einsum.contract_expression(formula, *shapes, optimize="dp")
    return lambda: product(*matrices)
