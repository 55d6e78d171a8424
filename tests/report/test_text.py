"""A report as text: bars, tables, and no more of each than a screen holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs import place_of
from tests.report import reports
from tf_memsafe import Report
from tf_memsafe.report import Blocker, Loop, Recomputed, Refused, Rewritten, Tensor
from tf_memsafe.report.text import BAR, PLACE, WIDTH, columns, place
from tf_memsafe.source import SourceLine

TENSOR = Tensor("f64", (10**6, 10**6), 8 * 10**12, "add", None)


def bars(report: Report) -> list[int]:
    return [line.count("#") for line in str(report).splitlines()[1:4]]


def test_the_bars_are_as_long_as_what_they_stand_for() -> None:
    assert bars(Report("f", 10**9, 4 * 10**9, 2 * 10**9, False)) == [BAR // 4, BAR, BAR // 2]
    assert bars(Report("f", None, 10, 10, True)) == [0, BAR, BAR]


def test_a_text_is_ascii_but_for_the_users_own() -> None:
    for report in (reports.cut(), reports.rewritten(), reports.blocked()):
        assert str(report).isascii()


def test_rewrites_are_a_table() -> None:
    lines = str(reports.rewritten()).splitlines()
    (row,) = [line for line in lines if line.strip().startswith("chain ")]
    line = place_of(reports.chain, "(similarities @").rpartition("/")[2]
    assert row.split(maxsplit=5)[1:5] == ["saves", "76.80", "kB", line]
    assert "=>" in row


def test_what_is_left_is_shown_for_what_was_rewritten_only() -> None:
    assert "largest tensors left:" in str(reports.cut())
    assert "largest tensors:" not in str(reports.cut())
    assert "largest tensors:" in str(reports.fitting())


def test_the_time_is_an_estimate() -> None:
    text = "  time            {} of that as written (estimate)"
    for time, shown in ((0.58, "0.6"), (1.13, "1.1"), (0.06, "less than 0.1")):
        assert text.format(shown) in str(Report("f", 10, 20, 5, True, time=time)).splitlines()


def test_the_time_of_a_small_function_is_not_estimated() -> None:
    assert reports.cut().time is None
    assert "estimate" not in str(reports.cut())
    assert "Estimated" not in reports.cut().to_html()


def test_what_is_computed_again_is_told() -> None:
    loops = (Loop(100, 10, 10, (TENSOR,)), Loop(100, 10, 10, (TENSOR,), 0, 0.25))
    text = str(Report("f", 10, 20, 5, True, loops=loops))
    assert text.count("of the flops again") == 1
    assert "axis of 100 in 10 chunks of 10, 25% of the flops again; no longer whole:" in text


@pytest.mark.parametrize("count", [1, 6, 50])
def test_all_of_it_fits_a_screen(count: int) -> None:
    loops = (Loop(10**6, 10, 10**5, (TENSOR,) * 20),) * count
    source = SourceLine("/a" * 50 + ".py", 12345, "Add", "library/" * 10 + "module.py:6")
    tensors = tuple(Tensor("f64", (10**6, i), 10**i, "add", source) for i in range(count))
    report = Report(
        "f", 10, 20, 5, False, loops=loops, left=tensors,
        recomputed=(Recomputed(source, 10**6, (1000, 1), 10**6),) * count,
        rewrites=(Rewritten("chain", "A => B" * 30, source, 10, 5),) * count,
        blockers=tuple(Blocker(tensor, f"sort needs it whole at {source}") for tensor in tensors),
        refusals=(Refused("chain", "A => B", source, "no reason"),) * count, time=0.5,
    )  # fmt: skip
    lines = str(report).splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= WIDTH + len(str(source))  # which is cut nowhere
    places = [line for line in lines if ".py" in line and line.strip()[0].isdigit()]
    assert places
    assert max(map(len, places)) <= WIDTH == 100


def test_refusals_are_pointed_at() -> None:
    assert str(reports.rewritten()).endswith("left alone by rewrites: see report.refusals")


def test_columns_line_up_and_empty_ones_are_left_out() -> None:
    rows = [("a", "", "first"), ("bcd", "", "second")]
    assert list(columns(rows)) == ["a    first", "bcd  second"]


def test_a_place_is_told_from_the_current_folder_on_and_stays_short() -> None:
    assert place(SourceLine(str(Path.cwd() / "models" / "knn.py"), 12, "Add")) == "models/knn.py:12"
    assert place(SourceLine("/models/knn.py", 12, "Add")) == "/models/knn.py:12"
    deep = place(SourceLine("/deep" * 20 + "/models/knn.py", 12, "Add"))
    assert deep.startswith(".../deep/")
    assert deep.endswith("/models/knn.py:12")
    assert len(deep) <= PLACE


def test_tensors_that_look_alike_share_a_line() -> None:
    report = Report("f", 10, 20, 5, True, left=(TENSOR, TENSOR))
    assert str(report).endswith("8.00 TB  2 x f64[1000000, 1000000]  (add)")
