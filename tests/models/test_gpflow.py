"""GPflow's models under a limit, trained by GPflow's own optimizers, written as its users do."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gpflow
import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tf_memsafe
from tf_memsafe.executable import Executable

Runs = list[Executable]

ROWS, INDUCING = 3_000, 30
LIMIT = 1_800_000
"""Bytes: K(Z, X) alone takes 720 kB, and each value and gradient needs several like it."""

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(ROWS, 3))
Y = np.sin(X[:, :1]) + 0.1 * RANDOM.normal(size=(ROWS, 1))
NEW = RANDOM.normal(size=(700, 3))

STEPS = {"maxiter": 2}


def kernel() -> Any:
    return gpflow.kernels.SquaredExponential(lengthscales=[1.0, 1.5, 2.0])


def sgpr() -> Any:
    return gpflow.models.SGPR((X, Y), kernel(), X[:INDUCING].copy())


def fitc() -> Any:
    return gpflow.models.GPRFITC((X, Y), kernel(), X[:INDUCING].copy())


def gpr() -> Any:
    return gpflow.models.GPR((X[:300], Y[:300]), kernel())


def gpmc() -> Any:
    return gpflow.models.GPMC((X[:150], Y[:150]), kernel(), gpflow.likelihoods.StudentT())


def vgp() -> Any:
    return gpflow.models.VGP((X[:120], Y[:120]), kernel(), gpflow.likelihoods.Gaussian())


def opper_archambeau() -> Any:
    likelihood = gpflow.likelihoods.StudentT()
    return gpflow.models.VGPOpperArchambeau((X[:120], Y[:120]), kernel(), likelihood)


def cglb() -> Any:
    model = gpflow.models.CGLB((X[:300], Y[:300]), kernel(), X[:20].copy())
    # GPflow 2.9 starts a tf.while_loop from its Parameter, which TensorFlow 2.21 does not take.
    model._v = tf.Variable(model.aux_vec, trainable=False)
    return model


def svgp() -> Any:
    likelihood = gpflow.likelihoods.Gaussian()
    return gpflow.models.SVGP(kernel(), likelihood, X[:INDUCING].copy(), num_data=ROWS)


def trained(model: Any, **options: Any) -> Any:
    """Steps of L-BFGS, as in GPflow's own notebooks."""
    gpflow.optimizers.Scipy().minimize(
        model.training_loss, model.trainable_variables, options=STEPS, **options
    )
    return model


def numbers(model: Any) -> list[np.ndarray]:
    return [np.asarray(value) for value in gpflow.utilities.parameter_dict(model).values()]


def same(found: Any, expected: Any, tolerance: float = 1e-6) -> None:
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


JIT = {"tf_fun_args": {"jit_compile": True}}


@pytest.mark.parametrize(("make", "options"), [(sgpr, {}), (sgpr, JIT)])
def test_training_by_scipy(
    make: Callable[[], Any], options: dict[str, Any], rewritten_runs: Runs
) -> None:
    expected = trained(make(), **options)
    with tf_memsafe.memory_limit(LIMIT):
        found = trained(make(), **options)
        loss = found.training_loss()
    same(loss, expected.training_loss())
    same(numbers(found), numbers(expected), 1e-4)
    assert rewritten_runs
    assert all(run.peak <= LIMIT for run in rewritten_runs)


@pytest.mark.parametrize(
    ("make", "limit"),
    [
        (gpr, 5_000_000),
        pytest.param(fitc, LIMIT, marks=pytest.mark.slow),
        pytest.param(gpmc, LIMIT, marks=pytest.mark.slow),
        (vgp, 1_310_000),
        pytest.param(opper_archambeau, 1_200_000, marks=pytest.mark.slow),
    ],
)
def test_training_and_prediction(make: Callable[[], Any], limit: int, rewritten_runs: Runs) -> None:
    """VGP makes a matrix as large as a variable says, which XLA has to know."""
    expected, points = trained(make()), NEW[:200]
    with warnings.catch_warnings(), tf_memsafe.memory_limit(limit):
        warnings.simplefilter("error", tf_memsafe.MemorySafetyWarning)
        found = trained(make())
        steps = len(rewritten_runs)
        prediction = tf.function(found.predict_f)(points)
    same(found.training_loss(), expected.training_loss())
    same(prediction, expected.predict_f(points), 1e-4)
    assert 0 < steps < len(rewritten_runs)
    assert all(run.peak <= limit for run in rewritten_runs)


@pytest.mark.slow  # test_demos.py has a smaller one
def test_cglb(rewritten_runs: Runs) -> None:
    def value_and_gradients(model: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        gradients = tape.gradient(loss, model.trainable_variables)
        return [loss, *map(tf.convert_to_tensor, gradients)]

    model, limit = cglb(), 1_000_000
    expected = value_and_gradients(model)
    with tf_memsafe.memory_limit(limit):
        same(tf.function(lambda: value_and_gradients(model))(), expected)
        same(tf.function(model.predict_f)(NEW[:200]), model.predict_f(NEW[:200]))
    assert rewritten_runs
    assert all(run.peak <= limit for run in rewritten_runs)


def test_priors_and_transforms(rewritten_runs: Runs) -> None:
    def make() -> Any:
        model = sgpr()
        one = tf.constant(1.0, tf.float64)
        model.kernel.variance.prior = tfp.distributions.Gamma(2 * one, one)
        model.likelihood.variance = gpflow.Parameter(
            0.5, transform=gpflow.utilities.positive(lower=1e-3, base="exp")
        )
        return model

    expected = trained(make())
    with tf_memsafe.memory_limit(LIMIT):
        same(trained(make()).training_loss(), expected.training_loss())
    assert rewritten_runs


PREDICTIONS: dict[str, Callable[[Any], Any]] = {
    "predict_f": lambda model: model.predict_f(NEW),
    "predict_y": lambda model: model.predict_y(NEW),
    "predict_log_density": lambda model: model.predict_log_density((NEW, NEW[:, :1])),
    "posterior": lambda model: model.posterior().predict_f(NEW),
}


# GPflow makes no posterior of SVGP inside a tf.function: test_a_posterior_that_caches.
@pytest.mark.parametrize(
    ("make", "name"),
    [(m, name) for m in (sgpr, svgp) for name in PREDICTIONS if (m, name) != (svgp, "posterior")],
)
def test_predictions(make: Callable[[], Any], name: str, rewritten_runs: Runs) -> None:
    model, predict = make(), PREDICTIONS[name]
    expected = predict(model)
    compiled = tf.function(lambda: predict(model))
    with tf_memsafe.memory_limit(LIMIT):
        same(compiled(), expected, 1e-8)
    assert rewritten_runs
    assert all(run.peak <= LIMIT for run in rewritten_runs)


@pytest.mark.parametrize("make", [sgpr, svgp])
def test_a_posterior_that_caches(make: Callable[[], Any]) -> None:
    posterior = make().posterior(gpflow.posteriors.PrecomputeCacheType.VARIABLE)
    expected = posterior.predict_f(NEW)
    with tf_memsafe.memory_limit(LIMIT):
        same(tf.function(posterior.predict_f)(NEW), expected, 1e-8)


def test_natural_gradients_and_adam_on_batches() -> None:
    def train() -> Any:
        model = svgp()
        gpflow.set_trainable(model.q_mu, False)
        gpflow.set_trainable(model.q_sqrt, False)
        data = tf.data.Dataset.from_tensor_slices((X, Y)).repeat().batch(500, drop_remainder=True)
        loss = model.training_loss_closure(iter(data))
        natural, adam = gpflow.optimizers.NaturalGradient(0.1), keras.optimizers.Adam(0.01)
        for _ in range(2):
            natural.minimize(loss, [(model.q_mu, model.q_sqrt)])
            with tf.GradientTape() as tape:
                value = loss()
            variables = model.trainable_variables
            adam.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))
        return model

    expected = train()
    with tf_memsafe.memory_limit(400_000):
        found = train()
    same(numbers(found), numbers(expected))
