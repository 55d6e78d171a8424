"""Settings of every test: quiet logs, the same random examples each time, no limit left behind."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before the first import of TensorFlow

import tensorflow as tf

import tf_memsafe
from tf_memsafe import errors, proof, xla
from tf_memsafe import executable as executables
from tf_memsafe.self_check import self_check
from tf_memsafe.xla import ConcreteFunction

settings.register_profile("deterministic", derandomize=True, deadline=None)
settings.load_profile("deterministic")


MAPPINGS = Path("/proc/self/maps")

MOST_MAPPINGS = 60_000
"""Of a process's memory: at 65,530 (vm.max_map_count) XLA ends it. A program takes several, and
TensorFlow keeps what it compiled for as long as the process lives."""

APART = "TF_MEMSAFE_TEST_APART"


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs what is marked `apart` in a process of its own."""
    if pyfuncitem.get_closest_marker("apart") is None or APART in os.environ:
        return None
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-q", pyfuncitem.nodeid]
    environment = {**os.environ, APART: "1"}
    done = subprocess.run(
        command,
        env=environment,
        cwd=pyfuncitem.config.rootpath,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return True


@pytest.fixture(autouse=True, scope="module")
def few_mappings() -> Iterator[None]:
    """A process that compiled almost too much says so, and is not just gone."""
    yield
    if MAPPINGS.exists():
        with MAPPINGS.open() as mappings:
            assert sum(1 for _ in mappings) < MOST_MAPPINGS, "run these tests in two processes"


@pytest.fixture(autouse=True)
def no_limit_afterwards() -> Iterator[None]:
    """No test leaves its limit to the next, nor what it was warned of."""
    yield
    tf_memsafe.set_memory_limit(None)
    errors._warned.clear()
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def rewritten_runs(monkeypatch: pytest.MonkeyPatch) -> list[executables.Executable]:
    """The rewritten programs in the order in which they are run; empty while none is."""
    runs: list[executables.Executable] = []
    original = executables.Executable.__call__

    def run(executable: executables.Executable, values: Any) -> Any:
        runs.append(executable)
        return original(executable, values)

    monkeypatch.setattr(executables.Executable, "__call__", run)
    return runs


@pytest.fixture
def proofs(monkeypatch: pytest.MonkeyPatch) -> list[proof.Proof]:
    """What each function that was held to a limit came to, in order: one for each signature."""
    found: list[proof.Proof] = []

    def prove(*arguments: Any, **options: Any) -> proof.Proof:
        found.append(proof.prove(*arguments, **options))
        return found[-1]

    # The public name `tf_memsafe.function` hides the module of that name.
    monkeypatch.setattr(importlib.import_module("tf_memsafe.function"), "prove", prove)
    return found


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[ConcreteFunction]:
    """What is compiled, in order."""
    self_check()  # which compiles a program once in a process
    found: list[ConcreteFunction] = []
    original = xla.measure

    def measure(function: ConcreteFunction, specs: Any) -> Any:
        found.append(function)
        return original(function, specs)

    monkeypatch.setattr(xla, "measure", measure)
    return found


@pytest.fixture(scope="module")
def benchmarks_on_path() -> Iterator[None]:
    """The scripts import each other as they do when they are run."""
    benchmarks = str(Path(__file__).parents[1] / "benchmarks")
    before = set(sys.modules)
    sys.path.insert(0, benchmarks)
    yield
    sys.path.remove(benchmarks)
    for name in set(sys.modules) - before:
        if benchmarks in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
