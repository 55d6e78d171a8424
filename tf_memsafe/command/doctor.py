"""`doctor`: whether tf_memsafe works here, and what it works with."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

import tensorflow as tf

from tf_memsafe.command.arguments import VARIABLE
from tf_memsafe.errors import IncompatibleTensorFlowError
from tf_memsafe.limits import format_bytes
from tf_memsafe.machine import free_memory
from tf_memsafe.report.text import columns
from tf_memsafe.self_check import SUPPORTED, self_check

OPTIONAL = {"matplotlib": "pictures in reports", "ipython": "magics in notebooks"}
"""Packages that are not needed but for this."""


def doctor(_: argparse.Namespace) -> int:
    """Prints versions, memory and the self-check's outcome; 1 if that fails."""
    print("\n".join(columns([*_versions(), *_memory()])))
    try:
        self_check()
    except IncompatibleTensorFlowError as error:
        print(f"self-check  failed: {error}")
        return 1
    print("self-check  passed: this TensorFlow does what tf_memsafe relies on")
    return 0


def _versions() -> Iterator[tuple[str, str]]:
    yield "tf_memsafe", _installed("tf_memsafe") or "not installed, but found on the path"
    yield "tensorflow", f"{tf.__version__} (supported: {SUPPORTED})"
    for package in ("numpy", "protobuf"):
        yield package, _installed(package) or "not installed"
    for package, need in OPTIONAL.items():
        yield package, _installed(package) or f"not installed ({need})"
    yield "python", platform.python_version()
    yield "machine", f"{platform.platform()}, {os.cpu_count()} processors"


def _memory() -> Iterator[tuple[str, str]]:
    for device in tf.config.list_logical_devices():
        yield device.device_type.lower(), device.name
    yield "free", f"{format_bytes(free_memory())}: what a limit of auto would be"
    yield VARIABLE, os.environ.get(VARIABLE, "not set")


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
