"""The error and the warning are what callers already catch, and say what, where and what to do."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import compiled, place_of
from tf_memsafe.errors import MemoryLimitError, MemorySafetyWarning
from tf_memsafe.hlo import op
from tf_memsafe.hlo.op import by_opcode
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


COUNT = 300
MATRIX = 4 * COUNT**2
X = tf.constant(np.random.default_rng(0).normal(size=(COUNT, 3)), tf.float32)


def factor(x: tf.Tensor) -> tf.Tensor:
    covariance = x @ tf.transpose(x)
    return tf.reduce_sum(tf.linalg.cholesky(covariance), 0)


def products(x: tf.Tensor) -> tf.Tensor:
    return x[:, None] * x[None]


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
        "     3.60 kB  f32[300, 3]  (argument 0)",
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
        "     3.60 kB  f32[300, 3]  (argument 0)",
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


def warning_of(call: Callable[[], Any], limit: int = MATRIX) -> str:
    with tf_memsafe.memory_limit(limit), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MemorySafetyWarning)
        call()
    (message,) = [str(each.message) for each in caught if each.category is MemorySafetyWarning]
    return message


def test_the_warning_of_what_xla_cannot_compile() -> None:
    def text(x: tf.Tensor) -> tf.Tensor:
        return tf.strings.length(tf.strings.as_string(x @ tf.transpose(x)))

    assert warning_of(lambda: tf.function(text)(X)) == (
        "tf_memsafe leaves text as it is: "
        f"XLA cannot compile AsString at {place_of(text, 'as_string')}; take it out of the function"
    )


def test_the_warning_of_an_op_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    by_opcode("sine")  # all are loaded
    monkeypatch.delitem(op._by_opcode, "sine")

    def waves(x: tf.Tensor) -> tf.Tensor:
        return tf.sin(x @ tf.transpose(x)) @ x

    assert warning_of(lambda: compiled(waves)(X)) == (
        "tf_memsafe leaves waves as it is: tf_memsafe has no op for XLA's 'sine' "
        f"(Sin at {place_of(waves, 'tf.sin')}); take it out of the function"
    )


def test_warnings_that_are_errors_are_raised_at_each_call() -> None:
    def text(x: tf.Tensor) -> tf.Tensor:
        return tf.strings.length(tf.strings.as_string(x @ tf.transpose(x)))

    function = tf.function(text)
    with tf_memsafe.memory_limit(MATRIX), warnings.catch_warnings():
        warnings.simplefilter("error", MemorySafetyWarning)
        for _ in range(2):
            with pytest.raises(MemorySafetyWarning, match="tf_memsafe leaves text as it is"):
                function(X)


def noisy(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum((x @ tf.transpose(x)) ** 2 @ tf.random.normal([COUNT, COUNT]))


def test_the_warning_of_random_numbers_and_a_tape() -> None:
    def call() -> None:
        with tf.GradientTape() as tape:
            tape.watch(X)
            compiled(noisy)(X)

    assert warning_of(call) == (
        "tf_memsafe leaves noisy as it is: it draws random numbers, "
        "which its gradient cannot draw again; open the tape inside of it"
    )


def test_the_warning_of_a_forward_accumulator() -> None:
    def sums(x: tf.Tensor) -> tf.Tensor:
        return tf.exp(x @ tf.transpose(x)) @ x

    def call() -> None:
        with tf.autodiff.ForwardAccumulator(X, tf.ones_like(X)):
            compiled(sums)(X)

    assert warning_of(call) == (
        "tf_memsafe leaves sums as it is: "
        "a tf.autodiff.ForwardAccumulator watches it; open that inside of it"
    )


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
