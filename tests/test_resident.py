"""The limit is real: what the process itself holds grows by no more."""

from __future__ import annotations

import pytest

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


PRODUCT_SCRIPT = """
import json, sys
import tensorflow as tf
import tf_memsafe
from tf_memsafe.demos.console import measure

@tf.function(jit_compile=True)
def total(x, y):
    return tf.reduce_sum(x @ y)

def call(count):
    x = tf.ones([count, 100])
    with tf_memsafe.memory_limit(int(sys.argv[1])):
        return total(x, tf.transpose(x)).numpy()

call(4_000)
result, cost = measure(lambda: call(10_000))
print(json.dumps({"resident": cost.resident, "result": float(result)}))
"""


def test_a_product_that_a_library_holds_for_itself_stays_within_the_limit() -> None:
    """XLA's buffer assignment does not have it: YNNPACK allocates it, 400 MB without a limit."""
    found = run("-c", PRODUCT_SCRIPT, str(LIMIT))
    assert found["result"] == pytest.approx(10_000**2 * 100, rel=1e-6)  # sums of f32
    assert found["resident"] < LIMIT
