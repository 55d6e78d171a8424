"""A saved model keeps to the limit by itself: it runs where tf_memsafe is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import COUNT, LIMIT, assert_same, kernel, points_and_weights
from tf_memsafe import xla

SPECS = tf.TensorSpec([COUNT, 3], tf.float64), tf.TensorSpec([COUNT, 4], tf.float64)

ELSEWHERE = """
import sys
sys.modules["tf_memsafe"] = None  # importing it is an error
import numpy as np
import tensorflow as tf

folder, arguments, results = sys.argv[1:]
x, v = np.load(arguments).values()
model = tf.saved_model.load(folder)
np.save(results, model(tf.constant(x), tf.constant(v)))
"""


class Model(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = tf.Variable(2.0, dtype=tf.float64)

    @tf_memsafe.function(memory_limit=LIMIT)
    def __call__(self, x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        return self.scale * kernel(x, v)


@pytest.fixture
def saved(tmp_path: Path) -> str:
    model, (x, v) = Model(), points_and_weights()
    model(x, v)
    tf.saved_model.save(model, str(tmp_path / "model"))
    return str(tmp_path / "model")


def peak_of(model: Any) -> int:
    return xla.measure(model.__call__.get_concrete_function(*SPECS), SPECS).peak


def test_it_runs_without_tf_memsafe(saved: str, tmp_path: Path) -> None:
    x, v = points_and_weights()
    arguments, results = tmp_path / "arguments.npz", tmp_path / "results.npy"
    np.savez(arguments, x=x, v=v)
    command = [sys.executable, "-c", ELSEWHERE, saved, str(arguments), str(results)]
    subprocess.run(command, check=True)
    np.testing.assert_allclose(np.load(results), 2 * kernel(x, v), rtol=1e-10)


def test_the_plan_is_inside(saved: str) -> None:
    loaded, (x, v) = tf.saved_model.load(saved), points_and_weights()
    loaded.scale.assign(3.0)
    assert_same(loaded(x, v), 3 * kernel(x, v))
    assert peak_of(loaded) <= LIMIT


def gradient(function: Any) -> Any:
    x, v = points_and_weights()
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = function(x, v)
    return tape.gradient(y, (v, function.scale))


def test_its_gradient(saved: str) -> None:
    assert_same(gradient(tf.saved_model.load(saved)), gradient(Model()))


def test_an_attribute_and_a_signature(tmp_path: Path) -> None:
    module, (x, v) = tf.Module(), points_and_weights()
    module.apply = tf_memsafe.function(kernel, memory_limit=LIMIT, input_signature=SPECS)
    tf.saved_model.save(module, str(tmp_path), signatures={"kernel": module.apply})
    loaded = tf.saved_model.load(str(tmp_path))
    assert_same(loaded.apply(x, v), kernel(x, v))
    (found,) = loaded.signatures["kernel"](x=x, v=v).values()
    assert_same(found, kernel(x, v))


def test_a_function_without_a_limit_is_saved_as_it_is(tmp_path: Path) -> None:
    module, (x, v) = tf.Module(), points_and_weights()
    module.apply = tf_memsafe.function(kernel)
    with tf_memsafe.memory_limit(LIMIT):
        module.apply(x, v)
    tf.saved_model.save(module, str(tmp_path))
    assert_same(tf.saved_model.load(str(tmp_path)).apply(x, v), kernel(x, v))
