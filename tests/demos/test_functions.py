"""What the demos compute, against the same computed plainly in f64."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tf_memsafe.demos import affinities, attention, kernel_ridge, mmd, sinkhorn, wide_network
from tf_memsafe.demos.conjugate import conjugate_gradients
from tf_memsafe.demos.kernel_mvm import Gaussian, exact_gp, kernel_times_vector

RANDOM = np.random.default_rng(0)


def gaussian(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * np.square(x[:, None] - y[None]).sum(-1))


def test_conjugate_gradients_solve_each_column() -> None:
    root = RANDOM.normal(size=(30, 30))
    matrix, targets = root @ root.T + np.eye(30), RANDOM.normal(size=(30, 4))
    targets[:, 2] = 0
    solution, steps = conjugate_gradients(
        lambda v: tf.matmul(tf.constant(matrix), v), tf.constant(targets), 200, 1e-10
    )
    np.testing.assert_allclose(solution, np.linalg.solve(matrix, targets), atol=1e-8)
    assert 0 < int(steps) < 200


def test_conjugate_gradients_stop_at_the_number_of_steps() -> None:
    scales = tf.constant(np.arange(1.0, 31)[:, None])
    _, steps = conjugate_gradients(lambda v: scales * v, tf.ones([30, 1], tf.float64), 3, 1e-12)
    assert int(steps) == 3


def test_a_kernel_matrix_times_a_vector() -> None:
    x, v = RANDOM.normal(size=(50, 3)), RANDOM.normal(size=50)
    found = kernel_times_vector(tf.constant(x), tf.constant(v))
    np.testing.assert_allclose(found, gaussian(x, x) @ v, rtol=1e-10)


def test_an_exact_gp_predicts_what_a_solve_does() -> None:
    x, y, new = (RANDOM.normal(size=shape) for shape in ((60, 2), (60, 1), (7, 2)))
    kernel = Gaussian(1.5, np.array([1.0, 2.0]), 0.1)
    means, _ = exact_gp(kernel, 200, 1e-10)(*map(tf.constant, (x, y, new)))
    scaled, scaled_new = x / kernel.lengthscales, new / kernel.lengthscales
    matrix = 1.5 * gaussian(scaled, scaled) + 0.1 * np.eye(60)
    expected = 1.5 * gaussian(scaled_new, scaled) @ np.linalg.solve(matrix, y)
    np.testing.assert_allclose(means, expected, atol=1e-8)


def test_attention_and_its_gradient() -> None:
    queries, keys, values = (RANDOM.normal(size=(2, 9, 4)) for _ in range(3))
    attended, _, _, to_values = attention.backward(*map(tf.constant, (queries, keys, values)))
    weights = np.exp(queries @ keys.swapaxes(1, 2) / 2)
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(attended, weights @ values, rtol=1e-10)
    expected = weights.swapaxes(1, 2) @ (weights @ values)
    np.testing.assert_allclose(to_values, expected, rtol=1e-10)


def test_the_discrepancy_of_each_split() -> None:
    points, signs = RANDOM.normal(size=(20, 2)), mmd.split_signs(12, 8, 3, seed=0)
    assert signs.shape == (20, 4)
    np.testing.assert_allclose(signs.sum(0), 0, atol=1e-6)
    found = mmd.discrepancies(tf.constant(points, tf.float32), tf.constant(signs))
    kernel = gaussian(points, points)
    parts = kernel[:12, :12], kernel[12:, 12:], kernel[:12, 12:]
    expected = parts[0].mean() + parts[1].mean() - 2 * parts[2].mean()
    assert float(found[0]) == pytest.approx(expected, rel=1e-4)


def test_transport_between_equal_clouds_leaves_each_point_where_it_is() -> None:
    cloud = tf.constant([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
    carried, leaving = sinkhorn.sinkhorn(steps=50, blur=0.1)(cloud, cloud)
    np.testing.assert_allclose(carried, cloud, atol=1e-4)
    np.testing.assert_allclose(leaving, 1, atol=1e-4)


def test_widths_give_each_point_the_same_number_of_neighbours() -> None:
    points = RANDOM.normal(size=(80, 3)).astype(np.float32)
    widths, perplexities = affinities.widths(perplexity=10)(tf.constant(points))
    np.testing.assert_allclose(perplexities, 10, rtol=1e-3)
    distances = np.square(points[0] - points[1:]).sum(-1)
    chances = np.exp(-float(widths[0]) * distances)
    chances /= chances.sum()
    assert np.exp(-np.sum(chances * np.log(chances))) == pytest.approx(10, rel=1e-3)


def test_kernel_ridge_is_the_least_of_its_objective() -> None:
    x, y, new = (RANDOM.normal(size=shape) for shape in ((60, 2), (60, 1), (7, 2)))
    centres = x[:15]
    predict = kernel_ridge.kernel_ridge(penalty=1e-2, steps=100)
    means, _ = predict(*map(tf.constant, (x, y, centres, new)))
    cross, inner = gaussian(x, centres), gaussian(centres, centres)
    weights = np.linalg.solve(cross.T @ cross + 60 * 1e-2 * inner, cross.T @ y)
    np.testing.assert_allclose(means, gaussian(new, centres) @ weights, atol=1e-4)


def test_a_tangent_kernel_of_one_hidden_layer() -> None:
    x = wide_network.of_length_1(RANDOM.normal(size=(6, 2, 2)).astype(np.float32))
    found = wide_network.tangent_kernel(tf.constant(x), tf.constant(x), layers=1)
    u = np.clip(x.astype(np.float64) @ x.T, -1, 1)
    slopes = 1 - np.arccos(u) / np.pi
    expected = np.sqrt(1 - u**2) / np.pi + 2 * u * slopes
    np.testing.assert_allclose(found, expected, atol=2e-3)
    np.testing.assert_allclose(np.diag(found), 2, atol=2e-3)


def test_shifted_images_begin_with_the_images() -> None:
    images = RANDOM.normal(size=(3, 8, 8)).astype(np.float32)
    shifted = wide_network.shifted(images)
    assert shifted.shape == (27, 8, 8)
    np.testing.assert_array_equal(shifted[:3], images)
