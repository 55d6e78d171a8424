"""What a report calls a function's arguments, variables, and tensors from outside."""

from __future__ import annotations

import tensorflow as tf

from tf_memsafe import explain
from tf_memsafe.captured import captured, names_of_inputs

ROWS = tf.TensorSpec([100, 3])


class Model(tf.Module):
    def __init__(self) -> None:
        self.weights = tf.Variable(tf.ones([3, 40]), name="weights")
        self.offsets = tf.random.normal([50, 40])

    @tf.function(jit_compile=True)
    def __call__(self, batch: dict[str, tf.Tensor], *rest: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(batch["points"] @ self.weights + rest[0]) + self.offsets


def test_arguments_have_their_names_and_variables_theirs() -> None:
    model = Model()
    concrete = model.__call__.get_concrete_function({"points": ROWS}, tf.TensorSpec([]))
    assert names_of_inputs(concrete) == [
        "argument batch",
        "argument rest_0",
        "variable weights",
        "a tensor from outside the function",
    ]


def test_what_has_no_name_is_called_by_its_number() -> None:
    signature = [ROWS, tf.TensorSpec([100, 3], name="weird name")]
    added = tf.function(lambda x, y: x + y, input_signature=signature)
    names = names_of_inputs(added.get_concrete_function())
    assert names == ["argument x", "argument 1"]


def test_variables_stand_in_place_of_their_handles() -> None:
    model = Model()
    concrete = model.__call__.get_concrete_function({"points": ROWS}, tf.TensorSpec([]))
    variable, constant = captured(concrete)
    assert variable is model.weights
    assert constant is model.offsets


def test_a_report_has_these_names() -> None:
    model = Model()
    report = explain(model.__call__, {"points": ROWS}, tf.TensorSpec([]), memory_limit="1MB")
    text = str(report)
    assert "(argument batch)" in text
    assert "(variable weights)" in text
    assert "(a tensor from outside the function)" in text
