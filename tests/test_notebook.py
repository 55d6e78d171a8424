"""The magics in a real kernel: a limit for the session or for a cell, and notes on what was cut."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tf_memsafe.progress import page_of

CELLS = {
    "load": "%load_ext tf_memsafe",
    "function": """
import tensorflow as tf, tf_memsafe

@tf.function(jit_compile=True)
def kernel(x, v):
    distances = tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)
    return tf.exp(-distances) @ v

x, v = tf.ones([100, 3]), tf.ones([100, 2])
""",
    "no limit": "%memory_limit",
    "in the cell": "%%memory_limit 20kB\nprint(tf_memsafe.get_memory_limit())\nkernel(x, v).shape",
    "after the cell": "%memory_limit",
    "session": "%memory_limit 15 kB",
    "call": "kernel(x, v).shape",
    "same call": "kernel(x, v).shape",
    "report": "report = tf_memsafe.last_reports()[-1]\nreport",
    "plot": "report.plot()",
    "removed": "%memory_limit none",
    "progress": """
import time
from tf_memsafe.progress import progress, stage
with progress("kernel"), stage("compiling"):
    time.sleep(2.7)
with progress("short"), stage("planning"):
    pass
""",
    "unload": "%unload_ext tf_memsafe\n%load_ext tf_memsafe",
}


def run(*cells: str) -> list[list[Any]]:
    """The outputs of each cell of a notebook, run in a kernel of its own."""
    notebook = nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, cells)])
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    return [cell.outputs for cell in notebook.cells]


@pytest.fixture(scope="module")
def outputs() -> dict[str, list[Any]]:
    return dict(zip(CELLS, run(*CELLS.values()), strict=True))


def printed(outputs: list[Any]) -> str:
    return "".join(o.text for o in outputs if o.output_type == "stream" and o.name == "stdout")


def notes(outputs: list[Any]) -> list[str]:
    """The text of each note, and not of its link."""
    found = [o.data["text/html"] for o in outputs if o.output_type == "display_data"]
    return [re.sub("<.*?>", "", note) for note in found if note]


def result(outputs: list[Any]) -> Any:
    (found,) = [o.data for o in outputs if o.output_type == "execute_result"]
    return found


def test_a_limit_for_a_cell(outputs: dict[str, list[Any]]) -> None:
    assert printed(outputs["no limit"]) == "memory limit: none\n"
    assert printed(outputs["in the cell"]) == "20000\n"
    assert result(outputs["in the cell"])["text/plain"] == "TensorShape([100, 2])"
    assert printed(outputs["after the cell"]) == "memory limit: none\n"


def test_a_limit_for_the_session(outputs: dict[str, list[Any]]) -> None:
    assert printed(outputs["session"]) == "memory limit: 15.00 kB\n"
    assert printed(outputs["removed"]) == "memory limit: none\n"


def test_a_note_where_a_function_was_rewritten(outputs: dict[str, list[Any]]) -> None:
    for cell, limit in (("in the cell", "20.00 kB"), ("call", "15.00 kB")):
        (note,) = notes(outputs[cell])
        assert re.fullmatch(rf"tf_memsafe: kernel: .* of {limit}; 1 loop.* \(report\)", note)
    assert notes(outputs["same call"]) == []


def test_the_link_of_the_note_is_the_report(outputs: dict[str, list[Any]]) -> None:
    found = [o.data["text/html"] for o in outputs["call"] if o.output_type == "display_data"]
    (note,) = filter(None, found)
    (page,) = re.findall('href="data:text/html;base64,(.*?)"', note)
    text = base64.b64decode(page).decode()
    assert text.startswith("<!DOCTYPE html>")
    assert "distances = tf.reduce_sum(" in text


def test_a_report_shows_itself(outputs: dict[str, list[Any]]) -> None:
    shown = result(outputs["report"])
    assert "kernel: fits" in shown["text/plain"]
    assert "data:image/svg+xml;base64," in shown["text/html"]


def test_lines_are_those_of_cells(outputs: dict[str, list[Any]]) -> None:
    """Not those of the files that ipykernel makes of them."""
    text, page = (result(outputs["report"])[f"text/{kind}"] for kind in ("plain", "html"))
    assert re.search(r"f32\[100, 100, 3\] +In\[2\]:5 +distances = ", text)
    assert ">In[2]:5</a>" in page
    assert "ipykernel_" not in text


def test_a_plot_is_shown_once(outputs: dict[str, list[Any]]) -> None:
    assert "image/png" in result(outputs["plot"])
    assert [o.output_type for o in outputs["plot"]] == ["execute_result"]


def test_the_line_on_long_work_is_empty_in_the_end(outputs: dict[str, list[Any]]) -> None:
    (line,) = outputs["progress"]
    assert line.output_type == "display_data"
    assert set(line.data.values()) == {""}


SLOW = """
import tensorflow as tf, tf_memsafe

@tf.function(jit_compile=True)
def slow(x):
    for _ in range(5):
        x = tf.linalg.svd(x)[1] + tf.exp(x)
    return x

try:
    with tf_memsafe.memory_limit("50kB"):
        slow(tf.ones([50, 50]))
except tf_memsafe.MemoryLimitError:
    pass
"""


def test_a_compile_is_told_while_it_takes_long() -> None:
    manager, client = start_new_kernel(kernel_name="python3")
    with closing_kernel(manager, client):
        client.execute(SLOW)
        told = list(_told(client))
    ended = told[-1][0]
    first = next(time for time, text in told if "tf_memsafe: slow: compiling ..." in text)
    assert ended - first > 1
    assert told[-2][1] == ""


def test_the_line_counts_by_itself() -> None:
    line = page_of("slow", "compiling", 0.5)
    assert "tf_memsafe: slow: compiling ... " in line
    assert 'style="animation-delay: 1.5s"' in line  # until it is seen
    assert 'style="animation-delay: -0.5s"' in line  # what the seconds start with


def _told(client: Any) -> Iterator[tuple[float, str]]:
    """What a kernel writes until it is idle, and when that arrives."""
    while True:
        message = client.get_iopub_msg(timeout=300)
        content = message["content"]
        if "display" in message["msg_type"] or "display_id" in content.get("transient", {}):
            yield time.time(), content["data"]["text/plain"]
        if message["msg_type"] == "error":
            raise AssertionError("\n".join(content["traceback"]))
        if content.get("execution_state") == "idle" and message["parent_header"]["msg_type"] == (
            "execute_request"
        ):
            yield time.time(), "idle"
            return


@contextmanager
def closing_kernel(manager: Any, client: Any) -> Iterator[None]:
    try:
        yield
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_a_failing_cell_stops_the_notebook() -> None:
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        run(CELLS["load"], "%%memory_limit 1GB\n1 / 0")


def test_what_is_not_a_limit() -> None:
    with pytest.raises(CellExecutionError, match="'lots' is not a memory limit"):
        run(CELLS["load"], "%memory_limit lots")
