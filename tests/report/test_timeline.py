"""The memory over a schedule, from XLA's own simulation of the heap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tests.programs import COUNT, compiled
from tests.report import reports
from tf_memsafe import xla
from tf_memsafe.buffers import BufferAssignment, HeapEvent
from tf_memsafe.report.program import Lines, Program, Side
from tf_memsafe.report.timeline import Timeline, timeline_of

BY_HAND = Timeline(100, (HeapEvent("a", 10), HeapEvent("b", 30), HeapEvent("a", -10)))


def measured(function: Callable[..., Any], *specs: tf.TensorSpec) -> BufferAssignment:
    return xla.measure(compiled(function).get_concrete_function(*specs), specs)


def test_what_is_in_use_after_each_step() -> None:
    assert BY_HAND.in_use == [100, 110, 140, 130]
    assert BY_HAND.peak_step == 2
    assert BY_HAND.at_peak == (HeapEvent("a", 10), HeapEvent("b", 30))


FUNCTIONS: dict[str, tuple[Callable[..., Any], list[tf.TensorSpec]]] = {
    "matrix": (reports.kernel, reports.SPECS),
    "loops of XLA's own": (reports.factor, [tf.TensorSpec([400, 3])]),
    "a loop": (
        lambda x: tf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, x @ x), (0, x))[1],
        [tf.TensorSpec([50, 50])],
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_peak_is_the_buffer_assignments(name: str) -> None:
    function, specs = FUNCTIONS[name]
    buffers = measured(function, *specs)
    timeline = timeline_of(buffers)
    assert timeline is not None
    assert max(timeline.in_use) == buffers.peak
    assert min(timeline.in_use) == timeline.base == timeline.in_use[-1]
    assert timeline.base + sum(event.bytes for event in timeline.at_peak) == buffers.peak


def test_nothing_compiled_has_no_timeline() -> None:
    assert timeline_of(BufferAssignment.estimated(10)) is None


def test_what_is_held_at_the_peak_has_its_type_and_line() -> None:
    concrete = compiled(reports.factor).get_concrete_function(reports.SPECS[0])
    side = Side(None, xla.measure(concrete, reports.SPECS[:1]), is_text=False)
    (first, *_) = Program(side, None, Lines(concrete, (), keep=True)).at_peak(side)
    assert (first.dtype, first.shape) == ("f64", (COUNT, COUNT))
    assert first.source is not None
    assert first.source.file == reports.__file__
