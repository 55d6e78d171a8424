"""Work that takes long is shown on a terminal, and on nothing else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import tf_memsafe
from tests.processes import ROOT
from tests.programs import LIMIT, compiled, kernel, points_and_weights
from tf_memsafe import progress, progress_line
from tf_memsafe.progress_line import CLEAR

WORK = """
import time
from tf_memsafe.progress import progress, stage
with progress("quick"), stage("reading"):
    pass
with progress("kernel"):
    with stage("planning"):
        with stage("proving"):
            time.sleep(2.7)
"""


def shown_on_a_terminal(*command: str, **environment: str) -> str:
    """What a program writes to a terminal that is its standard error."""
    ours, its = pty.openpty()
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": ROOT, **environment}
    process = subprocess.Popen(command, stderr=its, stdout=subprocess.DEVNULL, env=environment)
    os.close(its)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.extend(_parts(ours)))
    reader.start()
    assert process.wait() == 0
    reader.join()
    os.close(ours)
    return b"".join(found).decode()


def _parts(terminal: int) -> list[bytes]:
    found: list[bytes] = []
    while True:
        try:
            found.append(os.read(terminal, 2**12))
        except OSError:  # no process has the terminal any more
            return found


def test_long_work_is_shown_on_a_terminal_and_erased() -> None:
    shown = shown_on_a_terminal(sys.executable, "-c", WORK)
    assert "tf_memsafe: kernel: proving ... 2 s" in shown
    assert shown.endswith(CLEAR)
    assert "quick" not in shown


ENDED = """
import time
from tf_memsafe.progress import _terminal, progress, stage
with progress("first"), stage("planning"):
    _terminal._process.kill()
    _terminal._process.wait()
with progress("second"):
    with stage("planning"):
        pass
    with stage("proving"):
        time.sleep(2.7)
"""


def test_a_line_whose_process_was_ended_is_drawn_by_another() -> None:
    shown = shown_on_a_terminal(sys.executable, "-c", ENDED)
    assert "tf_memsafe: second: proving ... 2 s" in shown
    assert "Error" not in shown


FORKED = """
import os, time
from tf_memsafe.progress import progress, stage
with progress("first"), stage("planning"):
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
"""


def test_a_fork_does_not_keep_the_process_from_ending() -> None:
    start = time.time()
    ours, its = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": ROOT}
    command = [sys.executable, "-c", FORKED]
    subprocess.run(command, stderr=its, env=environment, check=True, timeout=50)
    os.close(ours)
    os.close(its)
    assert time.time() - start < 50


def test_it_can_be_switched_off() -> None:
    off = {progress.VARIABLE: "0"}
    assert "tf_memsafe" not in shown_on_a_terminal(sys.executable, "-c", WORK, **off)


def test_nothing_is_shown_elsewhere(capfd: pytest.CaptureFixture[str]) -> None:
    with progress.progress("kernel"), progress.stage("planning"):
        assert progress._work.get() is None
    assert capfd.readouterr().err == ""


class Recorder:
    """Where progress is shown, in a list."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def tell(self, name: str, stage: str, since: float) -> None:
        assert time.time() - since < 60
        self.told.append((name, stage))


def test_the_stages_of_a_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr(progress, "_display", lambda: recorder)
    function = compiled(kernel)
    with tf_memsafe.memory_limit(2 * LIMIT):  # half of what it needs: not compiled as written
        function(*points_and_weights())
        assert {name for name, _ in recorder.told} == {"kernel"}
        stages = [stage for _, stage in recorder.told]
        assert stages[:3] == ["reading", "planning", "proving"]
        assert stages[-3:] == ["", "compiling and running", ""]
        recorder.told.clear()
        function(*points_and_weights())
    assert recorder.told == []


def test_what_may_fit_is_compiled_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr(progress, "_display", lambda: recorder)
    with tf_memsafe.memory_limit(4 * LIMIT):
        compiled(kernel)(*points_and_weights())
    assert [stage for _, stage in recorder.told][:2] == ["reading", "compiling"]


# --- the process that draws the line ---


def drawn(*lines: str) -> str:
    script = str(Path(progress_line.__file__))
    told = "".join(lines).encode()
    done = subprocess.run([sys.executable, script], input=told, capture_output=True, check=True)
    return done.stderr.decode()


def test_the_line_is_drawn_and_erased_at_the_end() -> None:
    shown = drawn(f"f\tcompiling\t{time.time() - 10}\n")
    before, text, after = shown.partition("tf_memsafe: f: compiling ... 1")
    assert text
    assert (before, after[1:]) == (CLEAR, f" s{CLEAR}")


def test_nothing_is_drawn_before_its_time_nor_when_done() -> None:
    assert drawn(f"f\tcompiling\t{time.time()}\n") == ""
    assert drawn(f"f\tcompiling\t{time.time() - 10}\nf\t\t{time.time() - 10}\n") == ""
