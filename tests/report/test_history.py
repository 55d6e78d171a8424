"""What calls rewrote in this process, and what is logged of it."""

from __future__ import annotations

import gc
import logging
import weakref

import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import LIMIT, compiled, kernel, place_of, points_and_weights
from tests.report.reports import shown
from tf_memsafe import MemoryLimitError, Report, last_reports
from tf_memsafe.report import history
from tf_memsafe.xla import ConcreteFunction


@pytest.fixture
def before() -> list[Report]:
    """None: to make those of all other tests would take long."""
    history._reports.clear()
    return last_reports()


def test_what_was_rewritten_is_listed_once_for_each_signature(before: list[Report]) -> None:
    function, (x, v) = compiled(kernel), points_and_weights()
    with tf_memsafe.memory_limit(LIMIT):
        for _ in range(3):
            function(x, v)
        function(x, v[:, :2])
    first, second = last_reports()[len(before) :]
    assert [r.name for r in (first, second)] == ["kernel", "kernel"]
    assert (first.memory_limit, first.fits, len(first.loops)) == (LIMIT, True, 1)
    assert shown(place_of(kernel, "distances = ")) in str(first)
    assert "The program as written" in first.to_html()


def test_what_is_far_above_the_limit_is_measured_when_somebody_looks(
    before: list[Report], measured: list[ConcreteFunction], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "tf_memsafe")  # a line in the log is a look
    function, rows, columns = compiled(kernel), tf.zeros([500, 3]), tf.zeros([500, 4])
    with tf_memsafe.memory_limit(LIMIT):
        function(rows, columns)
    assert function.get_concrete_function(rows, columns) not in measured
    count = len(measured)
    (report,) = last_reports()[len(before) :]
    plain = tf_memsafe.explain(function, rows, columns)
    assert report.peak_before == plain.peak_before
    assert "The program as written" in report.to_html()
    assert last_reports()[-1] is report
    assert len(measured) == count + 2


def test_gradients_are_listed_too(before: list[Report]) -> None:
    function, (x, v) = compiled(kernel), points_and_weights()
    with tf_memsafe.memory_limit(LIMIT), tf.GradientTape() as tape:
        tape.watch(x)
        value = function(x, v)
    tape.gradient(value, x)
    names = [report.name for report in last_reports()[len(before) :]]
    assert names == ["kernel", "gradient_of_kernel"]


def test_what_is_not_rewritten_is_not_listed(before: list[Report]) -> None:
    x, v = points_and_weights()
    with tf_memsafe.memory_limit("1MB"):
        compiled(kernel)(x, v)
    with tf_memsafe.memory_limit(6_000), pytest.raises(MemoryLimitError):
        compiled(lambda x: tf.linalg.cholesky(x @ tf.transpose(x)))(x)
    tf_memsafe.explain(kernel, x, v, memory_limit=LIMIT)
    assert last_reports() == before


def test_a_report_outlives_its_function_and_keeps_no_tensors() -> None:
    def run() -> weakref.ref[tf.Tensor]:
        x, v = points_and_weights()
        with tf_memsafe.memory_limit(LIMIT):
            compiled(lambda v: kernel(x, v))(v)
        return weakref.ref(x)

    captured = run()
    report = last_reports()[-1]
    gc.collect()
    assert captured() is None
    assert shown(place_of(kernel, "distances = ")) in str(report)
    assert "The program as it is run" in report.to_html()


def test_a_line_is_logged_and_the_whole_report_for_debugging(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG, "tf_memsafe"), tf_memsafe.memory_limit(LIMIT):
        compiled(kernel)(*points_and_weights())
    records = [record for record in caplog.records if record.name == "tf_memsafe"]
    line, whole = records
    assert (line.levelname, whole.levelname) == ("INFO", "DEBUG")
    assert line.getMessage().startswith("kernel: 88.8")
    assert line.getMessage().endswith(" of 40.00 kB; 1 loop, 1 rewrite")
    assert whole.getMessage() == str(last_reports()[-1])
