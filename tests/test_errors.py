"""The error is what callers already catch, and says what, where and what to do."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Callable

import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import compiled, place_of
from tests.texts import COUNT, MATRIX, X, products
from tf_memsafe.errors import MemoryLimitError, MemorySafetyWarning
from tf_memsafe.xla import XlaCompileError


def test_the_error_is_tensorflows_own_kind() -> None:
    with pytest.raises(tf.errors.ResourceExhaustedError, match="too large") as caught:
        raise MemoryLimitError("too large", memory_limit=10, smallest_peak=20)
    assert caught.value.error_code == tf.errors.RESOURCE_EXHAUSTED
    assert str(caught.value) == caught.value.message == "too large"


def test_the_error_without_figures() -> None:
    error = MemoryLimitError("too large")
    assert (error.memory_limit, error.smallest_peak) == (None, None)


def test_the_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(MemoryLimitError("too large", 10, 20)))
    assert type(error) is MemoryLimitError
    assert (error.message, error.memory_limit, error.smallest_peak) == ("too large", 10, 20)


def test_the_warning_is_shown_by_default() -> None:
    with pytest.warns(UserWarning, match="as written"):
        warnings.warn("runs as written", MemorySafetyWarning, stacklevel=1)


# --- the texts, as a user meets them ---


def factor(x: tf.Tensor) -> tf.Tensor:
    covariance = x @ tf.transpose(x)
    return tf.reduce_sum(tf.linalg.cholesky(covariance), 0)


def medians(x: tf.Tensor) -> tf.Tensor:
    flat = tf.reshape(x @ tf.transpose(x), [-1])
    return tf.sort(flat)[:: COUNT * 10]


def error_of(function: Callable[[tf.Tensor], tf.Tensor], limit: int) -> str:
    with tf_memsafe.memory_limit(limit), pytest.raises(MemoryLimitError) as caught:
        compiled(function)(X)
    assert caught.value.memory_limit == limit
    return str(caught.value)


def assert_lines(text: str, *expected: str) -> None:
    """Asserts that the text has these lines; `#` stands for a figure."""
    pattern = "\n".join(re.escape(line).replace(r"\#", r"[\d,.]+") for line in expected)
    assert re.fullmatch(pattern, text), text


END = ", or tf_memsafe.explain(...) for the whole picture. Nothing was allocated."


def test_the_text_on_arguments_that_are_too_large() -> None:
    place = place_of(products, "return")
    assert_lines(
        error_of(products, 3_000),
        "products needs at least # MB (# bytes) at once, "
        "more than the memory limit of 3.00 kB (3,000 bytes).",
        "Its arguments alone take 3.60 kB.",
        "The tensors to blame:",
        f"     1.08 MB  f32[300, 300, 3]  {place}  return x[:, None] * x[None]",
        "     3.60 kB  f32[300, 3]  (argument x)",
        f"Try a limit of # bytes or more, smaller arguments, a lower precision{END}",
    )


def test_the_text_on_results_that_are_too_large() -> None:
    place = place_of(products, "return")
    tensor = f"     1.08 MB  f32[300, 300, 3]  {place}  return x[:, None] * x[None]"
    assert_lines(
        error_of(products, 1_000_000),
        "products needs at least # MB (# bytes) at once, "
        "more than the memory limit of 1.00 MB (1,000,000 bytes).",
        "Its arguments take 3.60 kB, and its results 1.08 MB:",
        tensor,
        "The tensors to blame:",
        tensor,
        "     3.60 kB  f32[300, 3]  (argument x)",
        "Try a limit of # bytes or more, smaller results (a sum, say, of what is returned), "
        f"a lower precision{END}",
    )


def test_the_text_on_a_matrix_that_is_factored() -> None:
    factored = place_of(factor, "cholesky")
    code = "return tf.reduce_sum(tf.linalg.cholesky(covariance), 0)"
    made = f"{place_of(factor, 'covariance = ')}  covariance = x @ tf.transpose(x)"
    assert_lines(
        error_of(factor, MATRIX),
        "factor needs at least # kB (# bytes) at once, "
        "more than the memory limit of 360.00 kB (360,000 bytes).",
        "What has to exist whole:",
        f"   360.00 kB  f32[300, 300]  {factored}  {code}",
        f"            cholesky: no axis of it can be computed alone at {factored}",
        f"   360.00 kB  f32[300, 300]  {made}",
        f"            cholesky needs it whole at {factored}",
        "Try a limit of # bytes or more, smaller arguments, "
        f"a smaller matrix to factor (of inducing points, say), a lower precision{END}",
    )


def test_the_text_on_what_is_too_large_to_compile() -> None:
    with tf_memsafe.memory_limit("1GB"), pytest.raises(MemoryLimitError) as caught:
        compiled(factor)(tf.ones([100_000, 3]))
    text = str(caught.value)
    assert text.startswith(
        "factor needs about 80.00 GB at once, more than the memory limit of 1.00 GB "
        "(1,000,000,000 bytes).\nWhat has to exist whole:\n    40.00 GB  f32[100000, 100000]  "
    )
    assert "\nTry a limit well above that, smaller arguments, a smaller matrix to factor" in text


def test_the_text_on_a_sort() -> None:
    text = error_of(medians, MATRIX)
    place = place_of(medians, "tf.sort")
    assert f"sort: no axis of it can be computed alone at {place}" in text
    assert ", tf.math.top_k in place of the sort, " in text


def test_the_error_of_explain_for_a_shape_that_is_open() -> None:
    with pytest.raises(ValueError, match="fully known") as caught:
        tf_memsafe.explain(products, tf.TensorSpec([None, 3]))
    assert str(caught.value) == (
        "products needs 1 fully known shapes, not (None, 3): "
        "give tensors, or a tf.TensorSpec without None for each"
    )


def test_the_error_of_explain_for_what_xla_cannot_compile() -> None:
    def text(x: tf.Tensor) -> tf.Tensor:
        return tf.strings.as_string(x)

    with pytest.raises(XlaCompileError) as caught:
        tf_memsafe.explain(text, X)
    assert str(caught.value) == (
        "text cannot be explained: "
        f"XLA cannot compile AsString at {place_of(text, 'as_string')}; take it out of the function"
    )


@pytest.mark.parametrize(
    ("maker", "name"),
    [
        (lambda x: tf.random.normal([COUNT, COUNT]) + x[:, :1], "tf.random.normal"),
        (
            lambda x: tf.random.stateless_normal([COUNT, COUNT], [1, 2]) + x[:, :1],
            "tf.random.stateless_normal",
        ),
        (lambda x: tf.linalg.eigh(x @ tf.transpose(x))[1], "tf.linalg.eigh"),
        (lambda x: tf.linalg.qr(x @ tf.transpose(x))[0], "tf.linalg.qr"),
    ],
)
def test_what_cannot_be_cut_is_called_as_the_user_calls_it(
    maker: Callable[[tf.Tensor], tf.Tensor], name: str
) -> None:
    text = error_of(lambda x: tf.linalg.cholesky(maker(x)), MATRIX // 2)
    reasons = [line for line in text.splitlines() if line.startswith(f"{'':12}{name}: ")]
    assert len(reasons) == 1
    for inner in ("get_tuple_element", "custom_call", "rng"):
        assert inner not in text
