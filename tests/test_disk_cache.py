"""What XLA compiled is kept on disk, and read only for the very same program."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.processes import run
from tf_memsafe import disk_cache, xla
from tf_memsafe.disk_cache import FLAGS, VARIABLE, remembered

SPEC = tf.TensorSpec((60, 5))

SCRIPT = """
import json, sys
from unittest import mock
import tensorflow as tf
import tf_memsafe
from tf_memsafe import xla

def kernel(x):
    return tf.reduce_sum(tf.exp(-tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)), 1)

for _ in range(int(sys.argv[1])):  # the names of functions count those made before
    tf.function(lambda x: x + 1)(tf.zeros(1))
function = tf.function(kernel, jit_compile=True)
compiled = []
def remembered(identify, compile, original=xla.remembered):
    return original(identify, lambda: compiled.append(1) or compile())

with mock.patch.object(xla, "remembered", remembered):
    with tf_memsafe.memory_limit("200kB"):
        total = float(tf.reduce_sum(function(tf.zeros((500, 5)))))
    (report,) = tf_memsafe.last_reports()
print(json.dumps({"total": total, "compiled": len(compiled), "report": str(report)}))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def measure(function: Callable[..., Any], spec: tf.TensorSpec = SPEC) -> Any:
    concrete = tf.function(function, jit_compile=True).get_concrete_function(spec)
    return xla.measure(concrete, [spec])


def test_the_next_process_compiles_nothing_for_the_proof(folder: Path) -> None:
    first = run("-c", SCRIPT, "0")
    kept = files(folder)
    second = run("-c", SCRIPT, "3")
    assert first["compiled"] == len(kept) > 1
    assert second == {**first, "compiled": 0}
    assert files(folder) == kept


def test_the_same_program_has_one_file(folder: Path) -> None:
    found = [measure(lambda x: x @ tf.transpose(x)) for _ in range(2)]
    assert found[0] == found[1]
    assert found[0].instructions == found[1].instructions
    assert len(files(folder)) == 1


def test_another_program_has_another_file(folder: Path) -> None:
    measure(lambda x: x @ tf.transpose(x))
    measure(lambda x: x @ tf.transpose(x), tf.TensorSpec((61, 5)))
    measure(lambda x: 2.0 * x @ tf.transpose(x))
    measure(lambda x: 3.0 * x @ tf.transpose(x))
    assert len(files(folder)) == 4


@pytest.mark.parametrize("flag", FLAGS)
def test_other_flags_have_another_file(
    folder: Path, flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    remembered(lambda: b"program", lambda: b"compiled")
    monkeypatch.setenv(flag, "--xla_cpu_enable_fast_math=true")
    assert remembered(lambda: b"program", lambda: b"otherwise") == b"otherwise"


def test_another_version_has_another_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered(lambda: b"program", lambda: b"compiled")
    assert remembered(lambda: b"program", lambda: b"otherwise") == b"compiled"
    monkeypatch.setattr(tf.version, "VERSION", "3.0")
    assert remembered(lambda: b"program", lambda: b"otherwise") == b"otherwise"


def test_another_machine_has_another_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered(lambda: b"program", lambda: b"compiled")
    monkeypatch.setattr(disk_cache, "_machine", lambda: ["another"])
    assert remembered(lambda: b"program", lambda: b"otherwise") == b"otherwise"


def test_a_damaged_file_is_compiled_anew(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    remembered(lambda: b"program", lambda: b"compiled")
    (path,) = folder.iterdir()
    path.write_bytes(b"damaged")
    with caplog.at_level(logging.WARNING, "tf_memsafe"):
        assert remembered(lambda: b"program", lambda: b"compiled") == b"compiled"
    assert "cannot be read" in caplog.text
    assert str(path) in caplog.text
    assert remembered(lambda: b"program", lambda: b"not asked") == b"compiled"


def test_a_folder_that_cannot_be_written_is_told(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write_text("a file")
    with caplog.at_level(logging.WARNING, "tf_memsafe"):
        assert remembered(lambda: b"program", lambda: b"compiled") == b"compiled"
    assert "programs are not kept" in caplog.text


def test_what_cannot_be_compiled_is_not_kept(folder: Path) -> None:
    def fail() -> bytes:
        raise xla.XlaCompileError("no")

    with pytest.raises(xla.XlaCompileError, match="no"):
        remembered(lambda: b"program", fail)
    assert not folder.exists()


def test_without_a_folder_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert remembered(lambda: sys.exit("asked"), lambda: b"compiled") == b"compiled"
