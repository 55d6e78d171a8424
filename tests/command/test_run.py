"""`run` runs scripts as Python does, and says what it did to them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.command.commands import SCRIPT, call

LIMIT = ("--memory-limit", "1MB")
SUMMARY = (
    r"tf_memsafe: 1 function rewritten for a limit of 1.00 MB\n  kernel: .* of 1.00 MB; 1 loop.*\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path


def test_arguments_exit_code_and_summary(folder: Path) -> None:
    done = call(folder, "run", *LIMIT, "script.py", "3", "--memory-limit", "-x")
    printed = "(1000, 2) ['3', '--memory-limit', '-x'] __main__ script.py\n"
    assert (done.returncode, done.stdout) == (3, printed)
    assert re.search(SUMMARY, done.stderr)


def test_a_module_and_the_limit_in_the_environment(folder: Path) -> None:
    done = call(folder, "run", "-m", "script", TF_MEMSAFE_LIMIT="1MB")
    assert done.stdout == f"(1000, 2) [] __main__ {folder / 'script.py'}\n"
    assert done.returncode == 0
    assert re.search(SUMMARY, done.stderr)


IMPORTS = """
import beside
try:
    import script
except ImportError:
    print("as in Python")
"""


def test_a_script_finds_what_is_beside_it_and_nothing_else(folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "inner/main.py").write_text(IMPORTS)
    (folder / "inner/beside.py").touch()
    done = call(folder, "run", *LIMIT, "inner/main.py")
    assert (done.returncode, done.stdout) == (0, "as in Python\n")


def test_an_error_of_the_script_is_shown_as_python_shows_it(folder: Path) -> None:
    done = call(folder, "run", *LIMIT, "script.py", "fail")
    assert done.returncode == 1
    trace = done.stderr[done.stderr.index("Traceback") :]
    assert re.fullmatch(
        r'Traceback \(most recent call last\):\n  File ".*script.py", line 16, in <module>\n'
        rf"(    .*\n)+RuntimeError: as asked\n{SUMMARY}",
        trace,
    )


def test_a_page_for_each_function_that_was_rewritten(folder: Path) -> None:
    done = call(folder, "run", *LIMIT, "--report", "reports/here", "script.py")
    (page,) = (folder / "reports/here").iterdir()
    assert page.name == "kernel.html"
    assert "distances = tf.reduce_sum(" in page.read_text()
    assert done.stderr.endswith("    reports/here/kernel.html\n")


UNCHECKED = """
import tensorflow as tf

@tf.function(jit_compile=True)
def text(x):
    return tf.strings.length(tf.strings.as_string(tf.sin(x)))

try:
    text(tf.ones([1000]))
except tf.errors.OpError:
    print("not compiled")
"""


def test_strict_turns_warnings_into_errors(folder: Path) -> None:
    (folder / "unchecked.py").write_text(UNCHECKED)
    loose = call(folder, "run", *LIMIT, "unchecked.py")
    assert (loose.returncode, loose.stdout) == (0, "not compiled\n")
    assert "MemorySafetyWarning: tf_memsafe leaves text as it is: " in loose.stderr
    strict = call(folder, "run", *LIMIT, "--strict", "unchecked.py")
    assert (strict.returncode, strict.stdout) == (1, "")
    assert "MemorySafetyWarning: tf_memsafe leaves text as it is: " in strict.stderr
