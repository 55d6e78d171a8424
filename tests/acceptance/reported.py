"""Runs a case at the reported size under its limit, and prints what it took, as JSON.

python -m tests.acceptance.reported INDEX, where INDEX counts the rows of CASES.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence

import tensorflow as tf

import tf_memsafe
from tests.acceptance.cases import CASES
from tf_memsafe.demos.console import measure


def arguments(specs: Sequence[tf.TensorSpec]) -> list[tf.Tensor]:
    """Normal numbers."""
    return [
        tf.random.stateless_normal(spec.shape, (seed, 1), dtype=spec.dtype)
        for seed, spec in enumerate(specs)
    ]


def main(index: int) -> None:
    # A function that is left as it was written would be measured as if it were held to the limit.
    warnings.simplefilter("error", tf_memsafe.MemorySafetyWarning)
    case = CASES[index]
    function = tf.function(case.function, jit_compile=True)
    function(*arguments(case.small))  # so that XLA and its threads are there
    # Made before the call is measured, because that takes more than what is made; counted in full.
    given = arguments(case.reported)
    held = sum(value.dtype.size * value.shape.num_elements() for value in given)
    with tf_memsafe.memory_limit(case.limit):
        results, cost = measure(lambda: function(*given))
        limit = tf_memsafe.get_memory_limit()
    numbers = [value for value in tf.nest.flatten(results) if value.dtype.is_floating]
    finite = all(bool(tf.reduce_all(tf.math.is_finite(value))) for value in numbers)
    found = {"limit": limit, "resident": held + cost.resident, "seconds": cost.seconds}
    print(json.dumps({**found, "finite": finite}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
