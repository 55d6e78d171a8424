"""The pieces that demos share."""

from __future__ import annotations

import io

import numpy as np

from tf_memsafe.demos.console import measure, progress, table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_in_a_file() -> None:
    stream = io.StringIO()
    with progress("working", stream):
        pass
    assert stream.getvalue() == "working ...\n"


def test_progress_counts_on_a_terminal() -> None:
    stream = Terminal()
    with progress("working", stream):
        pass
    assert stream.getvalue() == "\rworking ... 0 s\n"


def test_measure_sees_memory_that_is_given_back() -> None:
    total, cost = measure(lambda: int(np.ones(64 * 2**20, np.uint8).sum(dtype=np.int64)))
    assert total == 64 * 2**20
    assert cost.resident > 48 * 2**20
    assert cost.seconds > 0


def test_a_table_lines_up() -> None:
    assert table([["limit", "1 GB"], ["a", "b"]]) == "limit  1 GB\na      b"
