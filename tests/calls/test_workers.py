"""Two processes that train one model, each under the limit: MultiWorkerMirroredStrategy."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np
import tensorflow as tf

from tests.processes import run
from tests.programs import kernel, points_and_weights

WORKERS = 2
LIMIT = 75_000
"""Bytes: `kernel` needs 89 kB, its gradient more."""

SETTING = 'import os; os.environ["TF_CONFIG"] = '
WORKER = """
import json
import sys
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
import tf_memsafe
from tests.programs import compiled, kernel, points_and_weights
from tf_memsafe.executable import Executable

peaks, original = [], Executable.__call__
def counted(executable, values):
    peaks.append(executable.peak)
    return original(executable, values)
Executable.__call__ = counted

function, (x, v) = compiled(kernel), points_and_weights()
with strategy.scope():
    weights = tf.Variable(v)

def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(function(x, weights) ** 2)
    replica = tf.distribute.get_replica_context()
    gradient = replica.all_reduce("sum", tape.gradient(loss, weights))
    weights.assign_sub(0.1 * gradient)
    return loss

train = tf.function(lambda: strategy.run(step))
tf_memsafe.set_memory_limit(int(sys.argv[1]))
losses = [float(strategy.experimental_local_results(train())[0]) for _ in range(3)]
print(json.dumps({"replicas": strategy.num_replicas_in_sync, "losses": losses, "peaks": peaks}))
"""


def addresses() -> list[str]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(WORKERS)]
        for each in sockets:
            each.bind(("localhost", 0))
        return [f"localhost:{each.getsockname()[1]}" for each in sockets]


def losses() -> list[float]:
    """Of the same steps in one process: each gradient counts once for each worker."""
    x, v = points_and_weights()
    weights, found = tf.Variable(v), []
    for _ in range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(kernel(x, weights) ** 2)
        weights.assign_sub(0.1 * WORKERS * tape.gradient(loss, weights))
        found.append(float(loss))
    return found


def test_the_limit_holds_for_each_worker() -> None:
    workers = addresses()

    def work(index: int) -> dict[str, Any]:
        task = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        return run("-c", f"{SETTING}{json.dumps(task)!r}\n{WORKER}", str(LIMIT))

    with ThreadPoolExecutor(WORKERS) as threads:
        for found in threads.map(work, range(WORKERS)):
            assert found["replicas"] == WORKERS
            np.testing.assert_allclose(found["losses"], losses(), rtol=1e-10)
            assert len(found["peaks"]) >= 2  # forward and backward
            assert max(found["peaks"]) <= LIMIT
