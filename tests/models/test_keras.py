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


def model(batch: int | None = BATCH, **options: Any) -> keras.Model:
    keras.utils.set_random_seed(1)
    layers = [
        keras.Input((LENGTH, WIDTH), batch),
        Attention(WIDTH),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(1),
    ]
    made = keras.Sequential(layers)
    options = {"jit_compile": True, **options}
    made.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse", **options)
    return made


def arrays(rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(rows, LENGTH, WIDTH)), random.normal(size=(rows, 1))
    return x.astype("float32"), y.astype("float32")


def batches() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(arrays()).batch(BATCH, drop_remainder=True)


def limited(call: Callable[[], Any]) -> Any:
    """What a call returns under the limit, of which nothing is left as it is."""
    with warnings.catch_warnings(), tf_memsafe.memory_limit(LIMIT):
        warnings.simplefilter("error", tf_memsafe.MemorySafetyWarning)
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


# --- NumPy arrays, as Keras cuts them into batches: their size is open, the last one is smaller ---

OPTIONS = pytest.mark.parametrize(
    "options",
    [{"jit_compile": True}, {"jit_compile": False}, {"steps_per_execution": 2}],
    ids=["compiled", "plain", "two_steps"],
)
CALLS: dict[str, Callable[[keras.Model], Any]] = {
    "fit": lambda m: m.fit(*arrays(), BATCH, 2, shuffle=False, verbose=0).history["loss"],
    "evaluate": lambda m: m.evaluate(*arrays(), BATCH, verbose=0),
}


def are_batches(runs: Runs) -> bool:
    """Whether programs of both sizes were run, all within the limit."""
    sizes = {run.graph.types[0].shape[0] for run in runs}
    return BATCH in sizes and all(run.peak <= LIMIT for run in runs)


@OPTIONS
@pytest.mark.parametrize("name", CALLS)
def test_batches_of_open_size(name: str, options: dict[str, Any], rewritten_runs: Runs) -> None:
    call, plain, cut = CALLS[name], model(None, **options), model(None, **options)
    expected = call(plain)
    close(limited(lambda: call(cut)), expected)
    for one, other in zip(cut.get_weights(), plain.get_weights(), strict=True):
        close(one, other)
    assert are_batches(rewritten_runs)


@OPTIONS
def test_prediction_in_batches_of_open_size(options: dict[str, Any], rewritten_runs: Runs) -> None:
    plain, cut, (x, _) = model(None, **options), model(None, **options), arrays()
    found = limited(lambda: cut.predict(x, BATCH, verbose=0))
    close(found, plain.predict(x, BATCH, verbose=0))
    assert are_batches(rewritten_runs)


@OPTIONS
def test_a_limit_that_cannot_be_kept_to(options: dict[str, Any]) -> None:
    made = model(None, **options)
    with (
        tf_memsafe.memory_limit(50_000),
        pytest.raises(tf_memsafe.MemoryLimitError, match="scores = ") as caught,
    ):
        made.fit(*arrays(), BATCH, verbose=0)
    assert caught.value.memory_limit == 50_000


def test_an_error_in_a_layer_is_raised_as_it_is() -> None:
    class Broken(keras.layers.Layer):
        def call(self, inputs: tf.Tensor) -> tf.Tensor:
            raise KeyError("mine")

    made = keras.Sequential([Broken()])
    made.compile("sgd", "mse")
    with tf_memsafe.memory_limit(LIMIT), pytest.raises(KeyError, match="mine"):
        made.fit(*arrays(), BATCH, verbose=0)


def test_a_call_of_the_model(rewritten_runs: Runs) -> None:
    made, x = model(), tf.ones((BATCH, LENGTH, WIDTH))
    function = tf.function(made, jit_compile=True)
    with tf_memsafe.memory_limit(LIMIT):
        close(function(x), made(x))
    assert len(rewritten_runs) == 1
