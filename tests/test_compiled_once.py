"""A program is compiled once, for the proof and its calls; where it cannot be, it is twice."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.processes import run
from tf_memsafe import compiled_once
from tf_memsafe.compiled_once import FLAGS, requested
from tf_memsafe.self_check import SUPPORTED

SCRIPT = """
import json, os
from unittest import mock
import numpy as np
import tensorflow as tf
import tf_memsafe
from tf_memsafe import compiled_once, xla
{before}
tf_memsafe.set_memory_limit("200kB")
environment = os.environ.get("TF_XLA_FLAGS")
scale = tf.Variable(2.0)

@tf.function(jit_compile=True)
def kernel(x):
    return tf.reduce_sum(tf.exp(-scale * tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)), 1)

x = tf.constant(np.random.default_rng(0).normal(size=(500, 5)), tf.float32)
with mock.patch.object(xla, "_stage", wraps=xla._stage) as stage:
    total = float(tf.reduce_sum(kernel(x)))
asked = [call.args[2] for call in stage.call_args_list]
(report,) = tf_memsafe.last_reports()
print(json.dumps(dict(
    total=total,
    report=str(report),
    proofs=sum(each.startswith("optimized") for each in asked),
    by_calls=len(compiled_once._paths()),
    environment=environment,
)))
"""

LATE = "tf.constant(1.0)"
"""TensorFlow's first operation, before there is a limit."""


def script(before: str = "") -> dict[str, Any]:
    return run("-c", SCRIPT.format(before=before))


def test_a_call_runs_what_the_proof_compiled() -> None:
    once, twice = script(), script(LATE)
    assert (once["proofs"], once["by_calls"]) == (0, 0)
    assert twice["proofs"] == 1
    assert (once["total"], once["report"]) == (twice["total"], twice["report"])


@pytest.mark.parametrize("flags", [None, "--tf_xla_clustering_debug"], ids=["none", "one"])
def test_the_environment_is_as_it_was(flags: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FLAGS, raising=False)
    if flags is not None:
        monkeypatch.setenv(FLAGS, flags)
    assert script()["environment"] == flags


def test_a_folder_of_the_users_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(FLAGS, f"--tf_xla_persistent_cache_directory={tmp_path}")
    found = script()
    assert found["proofs"] == 1
    assert len(os.listdir(tmp_path)) >= 1


def test_a_proof_on_disk_is_not_compiled_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TF_MEMSAFE_CACHE", str(tmp_path))
    first, second = script(), script()
    assert (first["proofs"], first["by_calls"]) == (0, 0)
    assert second["proofs"] == 0
    assert second["by_calls"] > 0  # it was not compiled ahead
    assert second["report"] == first["report"]


def test_the_versions_that_are_asked_are_those_supported() -> None:
    assert SUPPORTED.startswith(f">={compiled_once.TENSORFLOW.rstrip('.')},")


def test_another_tensorflow_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FLAGS, "--tf_xla_clustering_debug")
    monkeypatch.setattr(compiled_once, "TENSORFLOW", "2.0.")
    with requested():
        assert os.environ[FLAGS] == "--tf_xla_clustering_debug"
