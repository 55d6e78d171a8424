"""GPflow's SGPR, loss and gradient, inside one compiled function under a limit.

Smaller ones are in test_cases.py and tests/models.
"""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import tf_memsafe


@pytest.mark.slow
def test_sgpr_runs_in_60_mb_with_the_same_numbers() -> None:
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(20_000, 5))
    targets = np.sin(inputs[:, :1]) + 0.1 * generator.normal(size=(20_000, 1))
    kernel = gpflow.kernels.SquaredExponential(lengthscales=[1.0] * 5)
    model = gpflow.models.SGPR((inputs, targets), kernel, inputs[:200].copy())

    @tf.function(jit_compile=True)
    def loss_and_gradient() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        return [loss, *map(tf.convert_to_tensor, tape.gradient(loss, model.trainable_variables))]

    expected = loss_and_gradient()
    report = tf_memsafe.explain(loss_and_gradient, memory_limit="60MB")
    assert report.peak_before > 150e6
    assert report.peak_after <= 60e6
    assert [loop.axis_length for loop in report.loops] == [20_000, 20_000]
    with tf_memsafe.memory_limit("60MB"):
        got = loss_and_gradient()
    for value, reference in zip(got, expected, strict=True):
        scale = float(tf.reduce_max(tf.abs(reference)))
        np.testing.assert_allclose(value, reference, rtol=1e-10, atol=1e-10 * scale)
