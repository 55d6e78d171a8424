"""Keras 3 models under a limit: training, evaluation, prediction."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_memsafe
from tf_memsafe.executable import Executable

Runs = list[Executable]

ROWS, LENGTH, WIDTH, BATCH = 20, 160, 8, 8
LIMIT = 1_200_000
"""Bytes: a batch's attention weights alone take 819 kB, and twice that in its gradient."""


class Attention(keras.layers.Layer):
    """Softmax attention as it is written first: the weights of all positions, whole."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = keras.layers.Dense(3 * width)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        queries, keys, values = tf.split(self.project(inputs), 3, axis=-1)
        scores = tf.matmul(queries, keys, transpose_b=True) / queries.shape[-1] ** 0.5
        return tf.matmul(tf.nn.softmax(scores), values)


def model() -> keras.Model:
    keras.utils.set_random_seed(1)
    layers = [
        keras.Input((LENGTH, WIDTH), BATCH),
        Attention(WIDTH),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(1),
    ]
    made = keras.Sequential(layers)
    made.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse", jit_compile=True)
    return made


def batches(rows: int = ROWS) -> tf.data.Dataset:
    random = np.random.default_rng(0)
    x = random.normal(size=(rows, LENGTH, WIDTH)).astype("float32")
    y = random.normal(size=(rows, 1)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH, drop_remainder=True)


def limited(call: Callable[[], Any]) -> Any:
    with warnings.catch_warnings(), tf_memsafe.memory_limit(LIMIT):
        # The functions around, which take the batches from an iterator, are not compiled.
        warnings.filterwarnings("ignore", ".*IteratorGetNext.*")
        return call()


def close(found: Any, expected: Any) -> None:
    """To a few roundings of f32, over sums of LENGTH terms and a few steps of training."""
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


def test_training_in_batches_of_one_size(rewritten_runs: Runs) -> None:
    plain, cut = model(), model()
    expected = plain.fit(batches(), epochs=2, verbose=0).history["loss"]
    close(limited(lambda: cut.fit(batches(), epochs=2, verbose=0)).history["loss"], expected)
    for one, other in zip(cut.get_weights(), plain.get_weights(), strict=True):
        close(one, other)
    assert rewritten_runs
    assert all(run.peak <= LIMIT for run in rewritten_runs)


def test_evaluation_and_prediction(rewritten_runs: Runs) -> None:
    plain, cut = model(), model()
    close(limited(lambda: cut.evaluate(batches(), verbose=0)), plain.evaluate(batches(), verbose=0))
    close(limited(lambda: cut.predict(batches(), verbose=0)), plain.predict(batches(), verbose=0))


def test_a_smaller_last_batch() -> None:
    plain, cut = model(), model()
    expected = plain.predict(np.ones((ROWS, LENGTH, WIDTH), "float32"), BATCH, verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tf_memsafe.MemorySafetyWarning)
        found = limited(
            lambda: cut.predict(np.ones((ROWS, LENGTH, WIDTH), "float32"), BATCH, verbose=0)
        )
    assert found.shape == (ROWS, 1)
    close(found, expected)


def test_a_batch_of_open_size_says_that_it_is_left_alone() -> None:
    cut = model()
    with (
        tf_memsafe.memory_limit(LIMIT),
        pytest.warns(tf_memsafe.MemorySafetyWarning, match="shape of"),
    ):
        cut.predict(np.ones((ROWS, LENGTH, WIDTH), "float32"), BATCH, verbose=0)


def test_a_call_of_the_model(rewritten_runs: Runs) -> None:
    made, x = model(), tf.ones((BATCH, LENGTH, WIDTH))
    function = tf.function(made, jit_compile=True)
    with tf_memsafe.memory_limit(LIMIT):
        close(function(x), made(x))
    assert len(rewritten_runs) == 1
