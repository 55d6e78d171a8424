"""What XLA's buffer assignment says of a call, and what it leaves out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensorflow as tf

from tf_memsafe import xla
from tf_memsafe.buffers import BufferAssignment

ROWS, COLUMNS, INNER = 300, 500, 40
PRODUCT = ROWS * COLUMNS * 4
ARGUMENTS = (ROWS + COLUMNS) * INNER * 4


def buffers(reduced: Callable[[tf.Tensor], tf.Tensor]) -> BufferAssignment:
    specs = [tf.TensorSpec([ROWS, INNER]), tf.TensorSpec([INNER, COLUMNS])]
    function = tf.function(lambda x, y: reduced(x @ y), jit_compile=True)
    return xla.measure(function.get_concrete_function(*specs), specs)


@pytest.mark.parametrize("reduce", [tf.reduce_sum, tf.reduce_max])
def test_a_product_that_a_library_call_reduces_to_a_number_counts(
    reduce: Callable[[tf.Tensor], tf.Tensor],
) -> None:
    assert buffers(reduce).peak >= ARGUMENTS + PRODUCT


@pytest.mark.parametrize("axis", [0, 1])
def test_a_product_that_a_library_call_reduces_tile_by_tile_does_not(axis: int) -> None:
    assert buffers(lambda product: tf.reduce_sum(product, axis)).peak < ARGUMENTS + PRODUCT / 10


def test_a_product_that_is_returned_counts_once() -> None:
    found = buffers(lambda product: product)
    assert found.bytes_of("result") == PRODUCT
    assert found.bytes_of("temporary") < PRODUCT


def test_batches_of_products_count_where_each_is_reduced_to_a_number() -> None:
    specs = [tf.TensorSpec([4, ROWS, INNER]), tf.TensorSpec([4, INNER, COLUMNS])]
    function = tf.function(lambda x, y: tf.reduce_sum(x @ y, (1, 2)), jit_compile=True)
    assert xla.measure(function.get_concrete_function(*specs), specs).peak >= 4 * PRODUCT
