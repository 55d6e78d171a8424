"""The picture: two panels with the limit, and peaks that say what they are made of."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from tests.programs import LIMIT, place_of
from tests.report import reports
from tf_memsafe import Report
from tf_memsafe.limits import format_bytes


def titles(report: Report) -> list[str]:
    return [axes.get_title() for axes in report.plot().axes]


def labels(figure: Figure) -> str:
    found = [axes.findobj(Annotation) for axes in figure.axes]
    return "\n".join(each.get_text() for several in found for each in several)


def test_a_panel_for_each_program() -> None:
    report = reports.cut()
    assert titles(report) == [
        f"as written: peak {format_bytes(report.peak_before)}",
        f"as it is run: peak {format_bytes(report.peak_after)}",
    ]


def test_the_curves_reach_the_peaks_and_the_line_is_the_limit() -> None:
    report = reports.cut()
    for axes, peak in zip(report.plot().axes, (report.peak_before, report.peak_after), strict=True):
        curve, limit = axes.get_lines()
        assert np.max(curve.get_ydata()) == peak
        assert {*np.unique(limit.get_ydata())} == {LIMIT}


def test_what_does_not_fit_is_not_said_to_be_run() -> None:
    _, smallest = titles(reports.blocked())
    peak = format_bytes(reports.blocked().peak_after)
    assert smallest == f"the smallest that was found: peak {peak}"
    assert "it is run" not in reports.blocked().to_html()


def test_peaks_are_labelled_with_tensors_and_lines() -> None:
    found = labels(reports.cut().plot())
    line = place_of(reports.kernel, "near * tf.exp").rpartition("/")[2]
    assert "80.00 kB  f64[100, 100]" in found
    assert line in found
    assert f"limit {format_bytes(LIMIT)}" in found


def test_a_logarithmic_axis_where_a_linear_one_would_show_nothing() -> None:
    report = reports.cut()
    assert {axes.get_yscale() for axes in report.plot().axes} == {"linear"}
    far = Report("f", 10**9, report.peak_before, 1, True, program=report.details)
    assert {axes.get_yscale() for axes in far.plot().axes} == {"log"}


def test_no_picture_of_what_was_not_compiled() -> None:
    with pytest.raises(ValueError, match="nothing of factor was compiled"):
        reports.too_large_to_compile().plot()


def test_no_picture_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install tf_memsafe\[report\]"):
        reports.cut().plot()
    assert "<img" not in reports.cut().to_html()


def test_it_leaves_pyplot_alone() -> None:
    from matplotlib import pyplot  # noqa: PLC0415

    reports.cut().plot()
    assert pyplot.get_fignums() == []
