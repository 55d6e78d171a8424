"""What is made for functions goes with them."""

from __future__ import annotations

import gc
import weakref

import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import POINTS, WEIGHTS, kernel, tensors
from tf_memsafe.report import history

FUNCTIONS, ROWS, LIMIT = 100, 30, 7_000
"""`kernel` of 30 rows needs 9 kB as it is written: one function in ten is cut."""


def count_objects() -> int:
    """Without the reports that are kept, of which there are so many and no more."""
    history._reports.clear()
    gc.collect()
    return len(gc.get_objects())


@pytest.mark.slow
def test_many_functions_are_freed() -> None:
    x, v = tensors(POINTS[:ROWS], WEIGHTS[:ROWS])
    tf_memsafe.set_memory_limit(LIMIT)
    made: list[weakref.ref[object]] = []
    counts = []
    for number in range(FUNCTIONS):
        rows = ROWS if number % 10 == 0 else 5
        function = tf.function(lambda x, v: kernel(x, v) + 1)
        function(x[:rows], v[:rows])
        made.append(weakref.ref(function.get_concrete_function(x[:rows], v[:rows])))
        del function
        if number % 25 == 24:
            counts.append(count_objects())
    assert not any(each() for each in made)
    assert counts[-1] < 1.05 * counts[0]  # planning remembers what it was asked last
