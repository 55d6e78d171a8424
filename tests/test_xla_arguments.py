"""Arguments of concrete functions, as `xla.flat_arguments` finds them by private TensorFlow API."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.programs import compiled
from tf_memsafe import xla

F64 = tf.float64
Pair = namedtuple("Pair", ["first", "second"])


def types_of(function: Any, args: Any, kwargs: Any) -> list[tf.TensorSpec]:
    found = xla.flat_arguments(function, args, kwargs)
    return [tf.TensorSpec(each.shape, each.dtype) for each in found]


def copy(structure: Any) -> Any:
    """The tensors among the leaves, copied, so that a trace has something to do."""
    return [tf.identity(leaf) for leaf in tf.nest.flatten(structure) if tf.is_tensor(leaf)]


def two(x: Any, y: Any) -> Any:
    return copy((x, y))


def keyword_only(a: Any, *, z: Any, b: Any = 2.0) -> Any:
    return copy((a, b, z))


def any_keywords(a: Any, **others: Any) -> Any:
    return copy((a, others))


def any_arguments(*arguments: Any) -> Any:
    return copy(arguments)


V2, V3, V4 = (tf.zeros([size]) for size in (2, 3, 4))
S5 = tf.TensorSpec([5], F64)

SHAPES: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], list[list[int]]]] = [
    (two, (V2, V3), {}, [[2], [3]]),
    (two, (V2,), {"y": V3}, [[2], [3]]),
    (two, (), {"y": V3, "x": V2}, [[2], [3]]),
    (two, (V2, 3.0), {}, [[2]]),
    (two, (3, S5), {}, [[5]]),
    (two, (np.zeros([2, 2]), np.float32(1)), {}, [[2, 2], []]),
    (two, ({"b": V2, "a": [V3, None]}, Pair(S5, 1)), {}, [[3], [2], [5]]),
    (keyword_only, (V2,), {"z": V3, "b": V4}, [[2], [4], [3]]),
    (keyword_only, (V2,), {"z": V3}, [[2], [3]]),
    (any_keywords, (V2,), {"z": V3, "b": S5}, [[2], [5], [3]]),
    (any_arguments, (V2, [V3, V4]), {}, [[2], [3], [4]]),
    (partial(two, V2), (V3,), {}, [[3]]),
]


@pytest.mark.parametrize(("function", "args", "kwargs", "expected"), SHAPES)
def test_flat_arguments_are_in_the_order_of_the_inputs(
    function: Any, args: Any, kwargs: Any, expected: list[list[int]]
) -> None:
    concrete = compiled(function, autograph=False).get_concrete_function(*args, **kwargs)
    specs = types_of(concrete, args, kwargs)
    assert [spec.shape.as_list() for spec in specs] == expected
    traced = concrete.inputs[: len(specs)]
    assert [(spec.dtype, spec.shape) for spec in specs] == [(t.dtype, t.shape) for t in traced]


SIGNATURE = [tf.TensorSpec([None, 3], F64), {"weights": tf.TensorSpec([None])}]


def test_arguments_fill_the_unknown_dimensions_of_a_signature() -> None:
    concrete = compiled(two, input_signature=SIGNATURE).get_concrete_function()
    specs = types_of(concrete, (np.zeros([7, 3]), {"weights": V2}), {})
    assert specs == [tf.TensorSpec([7, 3], F64), tf.TensorSpec([2])]
    specs = types_of(concrete, (tf.TensorSpec([8, 3], F64),), {"y": {"weights": V2}})
    assert specs == [tf.TensorSpec([8, 3], F64), tf.TensorSpec([2])]


def test_arguments_of_other_shapes_are_refused() -> None:
    concrete = compiled(two, input_signature=SIGNATURE).get_concrete_function()
    with pytest.raises(ValueError, match="not compatible"):
        types_of(concrete, (np.zeros([7, 4]), {"weights": V2}), {})


def test_lists_stand_for_the_tensors_of_a_signature() -> None:
    concrete = compiled(two, input_signature=SIGNATURE).get_concrete_function()
    specs = types_of(concrete, ([[1.0, 2.0, 3.0]], {"weights": [1.0, 2.0]}), {})
    assert specs == [tf.TensorSpec([1, 3], F64), tf.TensorSpec([2])]


def test_few_numbers_become_a_tensor() -> None:
    concrete = compiled(two, input_signature=SIGNATURE).get_concrete_function()
    arguments = np.ones([7, 3]), {"weights": [1.0, 2.0]}
    many, few = xla.flat_arguments(concrete, arguments, {}, few=2)
    assert many == tf.TensorSpec([7, 3], F64)
    assert few.numpy().tolist() == [1.0, 2.0]
