"""Squared distances, in every spelling people write, as matrix products; and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gpflow.utilities.ops import difference_matrix

from tests.rewrite.distances import Function, exact, largest, naive, points, scaled
from tests.rewrite.rewriting import both, reasons, rewritten, rules, shown
from tests.split.planning import floats
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.distance import DISTANCE
from tf_memsafe.rewrite.distance_size import SMALLEST_DIMENSION
from tf_memsafe.rewrite.driver import apply
from tf_memsafe.rewrite.maths import sum_over


def test_a_naive_distance() -> None:
    result = rewritten(DISTANCE, naive, floats(50, 7), floats(40, 7))
    lines = shown(result.graph)
    assert lines[7] == "%9 = reduce(%7, %8) dimensions=[0] : f64[7]"  # for the mean of y
    assert lines[-5:] == [
        "%45 = dot_general(%42, %44) contract [1]x[1] : f32[50,40]",
        "%46 = add(%36, %45) : f32[50,40]",
        "%47 = broadcast_in_dim(%4) broadcast_dimensions=[] : f32[50,40]",
        "%48 = maximum(%46, %47) : f32[50,40]",
        "return %48",
    ]
    (fired,) = result.rewrites
    assert (fired.bytes_before, fired.bytes_after) == (56_000, 8_000)


SPELLINGS: dict[str, Function] = {
    "squared_difference": lambda x, y: tf.reduce_sum(
        tf.math.squared_difference(x[:, None], y[None]), -1
    ),
    "expand_dims": lambda x, y: tf.reduce_sum(
        tf.square(tf.expand_dims(x, 1) - tf.expand_dims(y, 0)), 2
    ),
    "product": lambda x, y: tf.reduce_sum((x[:, None] - y[None]) * (x[:, None] - y[None]), -1),
    "pow": lambda x, y: tf.reduce_sum(tf.pow(x[:, None] - y[None], 2.0), -1),
    "tile": lambda x, y: tf.reduce_sum(
        (tf.tile(x[:, None], [1, 40, 1]) - tf.tile(y[None], [50, 1, 1])) ** 2, 2
    ),
    "repeat": lambda x, y: tf.reshape(
        tf.reduce_sum((tf.repeat(x, 40, 0) - tf.tile(y, [50, 1])) ** 2, 1), [50, 40]
    ),
    "broadcast_to": lambda x, y: tf.reduce_sum(
        (tf.broadcast_to(x[:, None], [50, 40, 7]) - tf.broadcast_to(y[None], [50, 40, 7])) ** 2, 2
    ),
    "einsum": lambda x, y: tf.einsum("nmd,nmd->nm", x[:, None] - y[None], x[:, None] - y[None]),
    "first axis": lambda x, y: tf.reduce_sum(
        (tf.transpose(x)[:, :, None] - tf.transpose(y)[:, None]) ** 2, 0
    ),
    "half": lambda x, y: tf.reduce_sum(0.5 * (x[:, None] - y[None]) ** 2, -1) * 2,
    "mean": lambda x, y: tf.reduce_mean((x[:, None] - y[None]) ** 2, -1) * 7,
    "keepdims": lambda x, y: tf.reduce_sum((x[:, None] - y[None]) ** 2, -1, keepdims=True)[..., 0],
    "difference_matrix": lambda x, y: tf.reduce_sum(difference_matrix(x, y) ** 2, -1),
    "y - x": lambda x, y: tf.reduce_sum((y[None] - x[:, None]) ** 2, -1),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings(spelling: str) -> None:
    result = rewritten(DISTANCE, SPELLINGS[spelling], floats(50, 7), floats(40, 7))
    assert rules(result) == ["squared_distance"]
    assert largest(result) == 50 * 40
    x, y = points(50, 7), points(40, 7)
    ((got, _),) = both(DISTANCE, SPELLINGS[spelling], x, y)
    np.testing.assert_allclose(got, exact(x, y), rtol=1e-5)


def test_a_norm_that_is_squared() -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.norm(x[:, None] - y[None], axis=-1) ** 2

    result = rewritten(DISTANCE, function, floats(50, 7), floats(40, 7))
    assert rules(result) == ["squared_distance", "square_of_root"]
    assert not any("sqrt" in line for line in shown(result.graph))
    x, y = points(50, 7), points(40, 7)
    ((got, _),) = both(DISTANCE, function, x, y)
    np.testing.assert_allclose(got, exact(x, y), rtol=1e-5)
    assert rules(rewritten(DISTANCE, function, floats(50, 3), floats(40, 3))) == ["square_of_root"]


def test_the_root_of_what_may_be_negative_is_kept() -> None:
    # NaN for negative numbers.
    assert not rewritten(DISTANCE, lambda x: tf.sqrt(x) ** 2, floats(9)).rewrites


LENGTHSCALES: dict[str, Function] = {
    "of the difference": scaled,
    "of each side": lambda x, y, s: naive(x / s, y / s),
    "broadcast before": lambda x, y, s: tf.reduce_sum((x[:, None] / s - y[None] / s) ** 2, -1),
    "squared": lambda x, y, s: tf.reduce_sum((x[:, None] - y[None]) ** 2 / s**2, -1),
    "inverse": lambda x, y, s: tf.reduce_sum((x[:, None] - y[None]) ** 2 * (1 / s**2), -1),
    "twice": lambda x, y, s: 2 * tf.reduce_sum((x[:, None] - y[None]) ** 2 / (2 * s**2), -1),
}


@pytest.mark.parametrize("scales", [(7,), ()])
@pytest.mark.parametrize("spelling", LENGTHSCALES)
def test_lengthscales(spelling: str, scales: tuple[int, ...]) -> None:
    function = LENGTHSCALES[spelling]
    specs = floats(50, 7), floats(40, 7), floats(*scales)
    assert rules(rewritten(DISTANCE, function, *specs)) == ["squared_distance"]
    x, y = points(50, 7, offset=100), points(40, 7, offset=100)
    lengths = np.full(scales, 0.5, np.float32)
    ((got, _),) = both(DISTANCE, function, x, y, lengths)
    np.testing.assert_allclose(got, 4 * exact(x, y), rtol=1e-5)


BATCHES: dict[str, tuple[Function, tuple[int, ...], tuple[int, ...]]] = {
    "both": (lambda x, y: tf.reduce_sum((x[:, :, None] - y[:, None]) ** 2, -1), (3,), (3,)),
    "one": (lambda x, y: tf.reduce_sum((x[:, :, None] - y) ** 2, -1), (3,), ()),
    "other": (lambda x, y: tf.reduce_sum((x[:, None] - y[:, None]) ** 2, -1), (), (3,)),
    "each with each": (lambda x, y: tf.reduce_sum(difference_matrix(x, y) ** 2, -1), (3,), (2,)),
    "two": (lambda x, y: tf.reduce_sum((x[..., :, None, :] - y[:, None]) ** 2, -1), (2, 3), (3,)),
}


@pytest.mark.parametrize("name", BATCHES)
def test_leading_batch_dimensions_in_either_place(name: str) -> None:
    function, of_x, of_y = BATCHES[name]
    result = rewritten(DISTANCE, function, floats(*of_x, 50, 7), floats(*of_y, 40, 7))
    assert rules(result) == ["squared_distance"]
    (output,) = result.graph.outputs
    assert largest(result) == output.tensor.size
    assert sum("dot_general" in line for line in shown(result.graph)) == 1
    x, y = points(*of_x, 50, 7), points(*of_y, 40, 7)
    if of_x == of_y:  # each of a batch has an offset of its own
        x[1], y[1] = x[1] + 1e4, y[1] + 1e4
    ((got, _),) = both(DISTANCE, function, x, y)
    expected = function(tf.constant(x, tf.float64), tf.constant(y, tf.float64))
    np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_conversions_that_lose_nothing_are_seen_through(dtype: tf.DType) -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        wide = (
            tf.cast(tf.tile(p, n), tf.float32) for p, n in ((x[:, None], [1, 40, 1]), (y, [1, 1]))
        )
        return tf.reduce_sum(tf.math.squared_difference(*wide), -1)

    specs = tf.TensorSpec((50, 7), dtype), tf.TensorSpec((40, 7), dtype)
    result = rewritten(DISTANCE, function, *specs)
    assert rules(result) == ["squared_distance"]
    assert largest(result) == 50 * 40
    x, y = (tf.cast(points(n, 7), dtype) for n in (50, 40))
    ((got, _),) = both(DISTANCE, function, x, y)
    wide = (p.numpy().astype(np.float32) for p in (x, y))
    np.testing.assert_allclose(got, exact(*wide), rtol=1e-5)


# --- refusals -----------------------------------------------------------------------------------


def reason(function: Function, *specs: tf.TensorSpec) -> str:
    result = rewritten(DISTANCE, function, *(specs or (floats(50, 7), floats(40, 7))))
    assert not result.rewrites
    return reasons(result).get("squared_distance", "")


def test_few_dimensions_are_refused() -> None:
    dimension = SMALLEST_DIMENSION - 1
    assert "in 5 dimensions" in reason(naive, floats(50, dimension), floats(40, dimension))
    dimension += 1
    assert rewritten(DISTANCE, naive, floats(50, dimension), floats(40, dimension)).rewrites


OTHERS: dict[str, tuple[Function, str]] = {
    "cubes": (lambda d: tf.reduce_sum(d**3, -1), "the exponent is 3.0, not 2"),
    "L1": (lambda d: tf.reduce_sum(tf.abs(d), -1), "are not squared, but go through abs"),
    "scaled L1": (lambda d: tf.reduce_sum(tf.abs(d / 3), -1), "but go through abs"),
    "Huber": (lambda d: tf.reduce_sum(tf.where(d < 1, d**2, d), -1), "but go through select"),
    "tanh": (lambda d: tf.reduce_sum(tf.tanh(d) ** 2, -1), "but go through tanh"),
    "largest": (lambda d: tf.reduce_max(d**2, -1), "of the differences are not added up"),
    "product": (lambda d: tf.reduce_prod(d**2, -1), "of the differences are not added up"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_exponents_and_reducers_are_refused(name: str) -> None:
    function, expected = OTHERS[name]
    assert expected in reason(lambda x, y: function(x[:, None] - y[None]))


def test_an_exponent_that_is_no_constant_is_refused() -> None:
    def function(x: tf.Tensor, y: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum((x[:, None] - y[None]) ** p, -1)

    assert "no constant" in reason(function, floats(50, 7), floats(40, 7), floats())


def test_weights_that_are_no_squares_are_refused() -> None:
    def function(x: tf.Tensor, y: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(w * (x[:, None] - y[None]) ** 2, -1)

    assert "not squares of scales" in reason(function, floats(50, 7), floats(40, 7), floats(7))


def test_half_precision_and_integers_are_refused() -> None:
    for dtype in ("f16", "i32"):
        x, y = build.region_parameters([TensorType(dtype, (50, 7)), TensorType(dtype, (40, 7))])
        shape = (50, 40, 7)
        wide = build.broadcast(x, shape, (0, 2)), build.broadcast(y, shape, (1, 2))
        square = build.multiply(build.subtract(*wide), build.subtract(*wide))
        result = apply(DISTANCE, Graph((x, y), (sum_over(square, (2,)),)))
        assert reasons(result)["squared_distance"] == f"{dtype} has too few digits for it"


def test_squares_that_were_rounded_to_half_precision_are_refused() -> None:
    half = tf.TensorSpec((50, 7), tf.float16)
    assert reason(naive, half, half) == "f16 has too few digits for it"


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: tf.reduce_sum((x[:, None] + y[None]) ** 2, -1),
        lambda x, y: tf.reduce_sum((x - y[0]) ** 2, -1),
        lambda x, y: tf.reduce_sum((x[:, None] - tf.tanh(x[:, None] * y)) ** 2, -1),
        lambda x, y: tf.reduce_sum((x - tf.reduce_max(x, -1, keepdims=True)) ** 2, -1),
    ],
)
def test_what_is_no_distance_is_left_alone(function: Function) -> None:
    assert reason(function) == ""
