from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.ops.makers import comparator, emit, floats, integers, with_region
from tests.hlo.ops.refusing import assert_refused
from tests.hlo.running import names, random_array, run, same_as_tensorflow
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.op import UnsupportedOpError, by_opcode
from tf_memsafe.hlo.reader import ProtoInstruction
from tf_memsafe.hlo.types import TensorType

X = random_array(floats(4, 9), 0)


def test_sort() -> None:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        values, indices = tf.math.top_k(x, 3)
        return [tf.sort(x, 0), tf.argsort(x, direction="DESCENDING"), values, indices]

    assert "sort" in names(same_as_tensorflow(function, X))


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16", "i32", "ui8"])
def test_top_k_is_tensorflows(dtype: str) -> None:
    (x,) = build.region_parameters([TensorType(dtype, (4, 9))])
    argument = random_array(x.tensor, 1)
    values, indices = run(Graph((x,), build.results(emit("top_k", k=3)(x))), [argument])
    expected = tf.math.top_k(argument, 3)
    assert values.tobytes() == expected.values.numpy().tobytes()
    np.testing.assert_array_equal(indices, expected.indices, strict=True)


def instruction(largest: bool) -> ProtoInstruction:
    """HLO's topk, as far as the row reads it."""
    operands = build.region_parameters([floats(4, 9)])
    return ProtoInstruction(SimpleNamespace(k=3, largest=largest), operands, floats(), (), None)


def test_reads_top_k_of_the_largest_only() -> None:
    row = by_opcode("topk")
    assert row is not None
    assert row.construct is not None
    assert row.construct(instruction(largest=True))["k"] == 3
    with pytest.raises(UnsupportedOpError, match="smallest"):
        row.construct(instruction(largest=False))


@pytest.mark.parametrize(
    ("make", "types"),
    [
        (with_region("sort", comparator("LT", "f32"), dimension=1, is_stable=True), (floats(4),)),
        (
            with_region("sort", comparator("LT", "f32", "i32"), dimension=0, is_stable=True),
            (floats(4), integers(5)),
        ),
        (emit("top_k", k=5), (floats(3, 4),)),
        (emit("top_k", k=0), (floats(),)),
    ],
)
def test_refuses(make: Callable[..., Node], types: tuple[TensorType, ...]) -> None:
    assert_refused(make, types)
