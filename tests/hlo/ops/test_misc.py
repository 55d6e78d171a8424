"""map, bit casts, sizes, custom calls."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.ops.makers import booleans, double, emit, floats, integers, with_region
from tests.hlo.ops.refusing import assert_refused
from tests.hlo.running import graph_of, names, random_array, run, same_as_tensorflow
from tf_memsafe import xla
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.op import UnsupportedOpError
from tf_memsafe.hlo.reader import read
from tf_memsafe.hlo.types import TensorType

X = random_array(floats(4, 3), 0)
MAP = with_region("map", double(), dimensions=(0, 1))


def test_map() -> None:
    (x,) = build.region_parameters([floats(4, 3)])
    (found,) = run(Graph((x,), (MAP(x),)), [X])
    np.testing.assert_array_equal(found, 2 * X)


def test_bit_casts() -> None:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        parts = tf.bitcast(x, tf.uint8)
        return [tf.bitcast(x, tf.int32), parts, tf.bitcast(parts, tf.float32)]

    assert "bitcast_convert" in names(same_as_tensorflow(function, X))


def test_a_size_that_changes_nothing_is_left_out() -> None:
    graph = same_as_tensorflow(lambda x: tf.argsort(x, direction="DESCENDING"), X)
    assert not names(graph) & {"set_dimension_size", "get_dimension_size"}


def test_custom_calls_are_passed_through() -> None:
    graph = same_as_tensorflow(tf.linalg.eigvalsh, X[:3] @ X[:3].T)
    assert "custom_call" in names(graph)


def module_with(**fields: object) -> object:
    """A program with a custom call that is changed a little."""
    concrete = tf.function(tf.linalg.eigvalsh).get_concrete_function(tf.TensorSpec([3, 3]))
    module = xla.hlo_module(concrete, [tf.TensorSpec([3, 3])])
    for computation in module.computations:
        for instruction in computation.instructions:
            if instruction.opcode == "custom-call":
                for name, value in fields.items():
                    setattr(instruction, name, value)
    return module


@pytest.mark.parametrize("field", ["custom_call_has_side_effect", "constrain_layout"])
def test_a_custom_call_that_cannot_be_carried_is_refused_by_name(field: str) -> None:
    with pytest.raises(UnsupportedOpError, match="Eigh with"):
        read(module_with(**{field: True}))


def test_an_unknown_op_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedOpError, match="'all-to-nothing'") as raised:
        read(module_with(opcode="all-to-nothing"))
    assert raised.value.opcode == "all-to-nothing"


@pytest.mark.parametrize(
    ("make", "types"),
    [
        (MAP, (floats(4),)),
        (emit("bitcast_convert", type=integers(4, 4)), (floats(4),)),
        (emit("bitcast_convert", type=TensorType("ui8", (4,))), (floats(4),)),
        (emit("bitcast_convert", type=TensorType("f64", (4,))), (floats(4, 3),)),
        (emit("bitcast_convert"), (booleans(4),)),
    ],
)
def test_refuses(make: Callable[..., Node], types: tuple[TensorType, ...]) -> None:
    assert_refused(make, types)


def test_dynamic_sizes_are_refused() -> None:
    with pytest.raises(UnsupportedOpError, match="set-dimension-size"):
        graph_of(lambda x: tf.shape(tf.where(x > 0))[0], X)
