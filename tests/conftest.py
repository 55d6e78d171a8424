"""Settings of every test: quiet logs, the same random examples each time, no limit left behind."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
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
