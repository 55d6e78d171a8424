"""Each call of the corpus, read into a graph, written back and run: TensorFlow's own numbers."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.corpus import (
    control_calls,
    elementwise_calls,
    image_calls,
    indexing_calls,
    linalg_calls,
    nn_calls,
    random_calls,
    reduction_calls,
    signal_calls,
)
from tests.hlo.running import run
from tf_memsafe import xla
from tf_memsafe.hlo.op import UnsupportedOpError
from tf_memsafe.hlo.reader import read
from tf_memsafe.hlo.verify import verify

Record = Callable[[str, object], None]

AREAS: dict[str, ModuleType] = {
    "control": control_calls,
    "image": image_calls,
    "indexing": indexing_calls,
    "linalg": linalg_calls,
    "math": elementwise_calls,
    "nn": nn_calls,
    "random": random_calls,
    "reduction": reduction_calls,
    "signal": signal_calls,
}
CORPUS = {f"{area}: {entry.name}": entry for area, table in AREAS.items() for entry in table.CALLS}


def test_the_corpus_is_large_and_names_each_call_once() -> None:
    entries = [entry for table in AREAS.values() for entry in table.CALLS]
    assert len(CORPUS) == len(entries) >= 250


@pytest.mark.parametrize("name", CORPUS)
def test_equal_to_tensorflow(name: str, record_property: Record) -> None:
    entry = CORPUS[name]
    arguments = [tf.convert_to_tensor(argument) for argument in entry.arguments()]
    function = tf.function(entry.function, jit_compile=True, autograph=False)
    try:
        concrete = function.get_concrete_function(*arguments)
        module = xla.hlo_module(concrete, [tf.TensorSpec(a.shape, a.dtype) for a in arguments])
    except (xla.XlaCompileError, NotImplementedError) as error:
        record_property("corpus", "TensorFlow cannot compile")
        pytest.skip(f"TensorFlow cannot compile it: {_reason(error)}")
    if entry.unsupported:
        _check_refused(module, entry.unsupported)
        record_property("corpus", "runs as the user wrote it")
        return
    graph = read(module)
    verify(graph)
    _check_same_bits(run(graph, arguments), tf.nest.flatten(function(*arguments)))
    record_property("corpus", "passes")


def _check_refused(module: Any, opcode: str) -> None:
    with pytest.raises(UnsupportedOpError, match=opcode):
        read(module)


def _check_same_bits(results: list[np.ndarray], expected: list[tf.Tensor]) -> None:
    """XLA gets the same program back, so no number may differ."""
    for found, wanted in zip(results, expected, strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(_known(found), _known(wanted.numpy()), strict=True)


def _known(array: np.ndarray) -> np.ndarray:
    """NumPy does not know bfloat16's NaN."""
    return array.astype(np.float32) if array.dtype == tf.bfloat16.as_numpy_dtype else array


def _reason(error: Exception) -> str:
    """XLA's message without what repeats in each."""
    first_line = str(error).splitlines()[0]
    return first_line.rpartition("on XLA_CPU_JIT: ")[2][:100]
