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
from tf_memsafe import proof
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


def sums(x: tf.Tensor) -> tf.Tensor:
    return tf.exp(x @ tf.transpose(x)) @ x


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


def at_stake(total: str, place: str, shape: str = "[300, 300]", limit: str = "360.00 kB") -> str:
    """How a warning ends: the limit, what the function may need, and where the largest is made."""
    largest = f"the largest that is known 360.00 kB: float32{shape} at {place}"
    return f". The limit is {limit}; {total}, {largest}"


UNKNOWN = "how much it needs is not known"


def test_the_warning_of_what_xla_cannot_compile() -> None:
    def text(x: tf.Tensor) -> tf.Tensor:
        return tf.strings.length(tf.strings.as_string(x @ tf.transpose(x)))

    place = place_of(text, "as_string")
    assert warning_of(lambda: tf.function(text)(X)) == (
        "tf_memsafe leaves text as it is: "
        f"XLA cannot compile AsString at {place}; take it out of the function"
        + at_stake("its tensors take 3.25 MB together", place)
    )


def test_the_warning_of_a_size_that_is_data() -> None:
    def positive(x: tf.Tensor) -> tf.Tensor:
        products = x @ tf.transpose(x)
        return tf.boolean_mask(products, products > 0)

    made, selected = place_of(positive, "products ="), place_of(positive, "boolean_mask")
    assert warning_of(lambda: compiled(positive)(X)) == (
        "tf_memsafe leaves positive as it is: "
        f"the size of what Where at {selected} makes is data; "
        "keep to sizes that are known (a mask in place of a selection, say)"
        + at_stake(UNKNOWN, made)
    )


def test_the_warning_of_a_variable_as_an_argument() -> None:
    def product(x: tf.Tensor, variable: tf.Variable) -> tf.Tensor:
        return x @ tf.transpose(x) * variable

    variable = tf.Variable(2.0)
    assert warning_of(lambda: compiled(product)(X, variable)) == (
        "tf_memsafe leaves product as it is: it takes a tf.Variable (or another resource) as an "
        "argument; let it use that from outside, as a method does"
        + at_stake("its tensors take 1.09 MB together", place_of(product, "return"))
    )


def test_the_warning_of_another_device() -> None:
    def elsewhere(x: tf.Tensor) -> tf.Tensor:
        with tf.device("/GPU:0"):
            return x @ tf.transpose(x)

    place = place_of(elsewhere, "return")
    assert warning_of(lambda: tf.function(elsewhere)(X)) == (
        f"tf_memsafe leaves elsewhere as it is: it runs Transpose at {place} on /device:GPU:0; "
        "keep the function to one device" + at_stake("its tensors take 727.21 kB together", place)
    )


def test_the_warning_of_shapes_that_are_open_where_a_call_is_traced() -> None:
    @tf.function(jit_compile=True)
    def inner(x: tf.Tensor) -> tf.Tensor:
        return tf.exp(x) @ tf.zeros([3, 30_000])

    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def outer(x: tf.Tensor) -> tf.Tensor:
        return inner(x)

    assert warning_of(outer.get_concrete_function) == (
        "tf_memsafe leaves inner as it is: the call is traced with a shape of (None, 3) for its "
        "argument x; call it with tensors whose shapes are known"
        + at_stake(UNKNOWN, place_of(inner.python_function, "zeros"), "[3, 30000]")
    )


def test_the_warning_of_a_program_that_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise XlaCompileError("XLA cannot compile it: for no reason")

    monkeypatch.setattr(proof, "compile_graph", refused)
    raised: list[str] = []

    def call() -> None:
        with pytest.raises(MemoryLimitError) as caught:
            compiled(sums)(X)
        raised.append(str(caught.value))

    text = warning_of(call)
    assert "\nA program was dropped: XLA cannot compile it: for no reason\n" in raised[0]
    assert text == (
        "tf_memsafe drops a program that it wrote for sums: "
        "XLA cannot compile it: for no reason; another one is used if it fits; "
        "another limit may help, and so does reporting this"
        + at_stake("its tensors take 734.41 kB together", place_of(sums, "return"))
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


def test_the_warning_of_an_op_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    by_opcode("sine")  # all are loaded
    monkeypatch.delitem(op._by_opcode, "sine")

    def waves(x: tf.Tensor) -> tf.Tensor:
        return tf.sin(x @ tf.transpose(x)) @ x

    place = place_of(waves, "tf.sin")
    assert warning_of(lambda: compiled(waves)(X)) == (
        "tf_memsafe leaves waves as it is: tf_memsafe has no op for XLA's 'sine' "
        f"(Sin at {place}); take it out of the function"
        + at_stake("its tensors take 734.41 kB together", place)
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
        + at_stake("its tensors take 2.17 MB together", place_of(noisy, "return"))
    )


def test_the_warning_of_a_forward_accumulator() -> None:
    def call() -> None:
        with tf.autodiff.ForwardAccumulator(X, tf.ones_like(X)):
            compiled(sums)(X)

    assert warning_of(call) == (
        "tf_memsafe leaves sums as it is: "
        "a tf.autodiff.ForwardAccumulator watches it; open that inside of it"
        + at_stake("its tensors take 734.41 kB together", place_of(sums, "return"))
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
