"""The limit is real: what the process itself holds grows by no more."""

from __future__ import annotations

from tests.processes import run

LIMIT = 50_000_000
"""Bytes; without a limit the function takes 800 MB. What XLA takes to compile it, about 10 MB, has
room as well, because the chunks that are best for the cache are smaller than the limit allows."""

SCRIPT = """
import json, sys
import numpy as np
import tensorflow as tf
import tf_memsafe
from tests.programs import compiled, kernel
from tf_memsafe.demos.console import measure

function, random = compiled(kernel), np.random.default_rng(0)

def call(count):
    x, v = (tf.constant(random.normal(size=(count, columns))) for columns in (3, 4))
    with tf_memsafe.memory_limit(int(sys.argv[1])):
        return function(x, v).numpy(), x, v

call(3_000)  # 72 MB: cut as well, so that XLA and its threads are there
(result, x, v), cost = measure(lambda: call(10_000))
distances = np.square(x[:5, None] - x[None]).sum(-1)
print(json.dumps({
    "before": tf_memsafe.explain(function, x, v).peak_before,
    "resident": cost.resident,
    "error": float(np.abs(np.exp(-distances) @ v - result[:5]).max()),
}))
"""


def test_resident_memory_stays_within_the_limit() -> None:
    found = run("-c", SCRIPT, str(LIMIT))
    assert found["before"] > 800_000_000
    assert found["error"] < 1e-10
    assert found["resident"] < LIMIT
