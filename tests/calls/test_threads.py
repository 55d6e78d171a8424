"""Several threads, devices and replicas."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import tensorflow as tf

import tf_memsafe
from tests.processes import run
from tests.programs import LIMIT, assert_same, compiled, kernel, points_and_weights
from tf_memsafe.executable import Executable
from tf_memsafe.proof import Proof

Runs = list[Executable]


@pytest.mark.parametrize("options", [{}, {"jit_compile": True}], ids=["plain", "compiled"])
def test_the_first_calls_at_once(
    options: dict[str, Any], rewritten_runs: Runs, proofs: list[Proof]
) -> None:
    function, (x, v) = tf.function(kernel, **options), points_and_weights()
    expected, start = kernel(x, v), threading.Barrier(4)

    def call(_: int) -> tf.Tensor:
        start.wait()
        return function(x, v)

    tf_memsafe.set_memory_limit(LIMIT)
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(call, range(4)):
            assert_same(found, expected)
    assert len(proofs) == 1
    assert len(rewritten_runs) == 4


def test_a_device_scope(rewritten_runs: Runs) -> None:
    function, (x, v) = compiled(kernel), points_and_weights()
    with tf_memsafe.memory_limit(LIMIT), tf.device("/CPU:0"):
        assert_same(function(x, v), kernel(x, v))
    assert len(rewritten_runs) == 1


REPLICAS = """
import json
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import tf_memsafe
from tf_memsafe.executable import Executable
from tests.programs import LIMIT, compiled, kernel, points_and_weights

peaks, original = [], Executable.__call__
def counted(executable, values):
    peaks.append(executable.peak)
    return original(executable, values)
Executable.__call__ = counted

strategy = tf.distribute.MirroredStrategy(["/CPU:0", "/CPU:1"])
function, (x, v) = compiled(kernel), points_and_weights()

@tf.function
def replicated():
    return strategy.run(lambda: function(x, v))

tf_memsafe.set_memory_limit(LIMIT)  # of the process: replicas run in threads of their own
results = strategy.experimental_local_results(replicated())
tf_memsafe.set_memory_limit(None)
expected = kernel(x, v)
print(json.dumps({
    "replicas": len(results),
    "error": max(float(tf.reduce_max(tf.abs(result - expected))) for result in results),
    "peaks": peaks,
    "limit": LIMIT,
}))
"""


def test_the_limit_holds_for_each_replica() -> None:
    found = run("-c", REPLICAS)
    assert found["replicas"] == len(found["peaks"]) == 2
    assert max(found["peaks"]) <= found["limit"]
    assert found["error"] < 1e-12
