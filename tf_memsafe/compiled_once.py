"""Programs that XLA compiled for calls to come, read from where TensorFlow keeps them.

What a call runs is in a cache inside of TensorFlow that nothing reads. TensorFlow can be asked to
put a copy of each new entry into a folder, too: then a program is compiled once, for the proof and
for its calls. The folder is in memory, on no disk.

TensorFlow reads the request when its first operation runs, and never again. Where that was before
there was a limit, or another folder is asked for, nothing is found here, and programs are compiled
twice.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import tensorflow as tf
from google.protobuf.empty_pb2 import Empty
from google.protobuf.unknown_fields import UnknownFieldSet

TENSORFLOW = "2.21."
"""How the versions of TensorFlow start that are asked: a flag that it does not know ends it."""

FLAGS = "TF_XLA_FLAGS"
FOLDER = "ram://tf_memsafe_compiled"
REQUEST = (
    f"--tf_xla_persistent_cache_directory={FOLDER}",
    "--tf_xla_persistent_cache_device_types=CPU",
)
"""On a GPU arguments would take its memory for the compile: they cannot be reserved, untouched."""

lock = threading.Lock()
"""Held from before a compile until its entry is taken."""


@contextmanager
def requested() -> Iterator[None]:
    """A block whose first operation, if it is TensorFlow's first, has it keep what it compiles.

    After it the environment is as it was: processes that are started later are asked for nothing.
    """
    flags = os.environ.get(FLAGS)
    if not tf.version.VERSION.startswith(TENSORFLOW) or "persistent_cache" in (flags or ""):
        yield
        return
    os.environ[FLAGS] = " ".join(filter(None, [flags, *REQUEST]))
    try:
        yield
    finally:
        if flags is None:
            del os.environ[FLAGS]
        else:
            os.environ[FLAGS] = flags


def is_heard() -> bool:
    """Whether TensorFlow has kept a program by now."""
    return bool(tf.io.gfile.isdir(FOLDER))


class Entry(NamedTuple):
    """What XLA made of a function: an HloModuleProto and a BufferAssignmentProto, serialized."""

    module: bytes
    buffers: bytes


def taken(name: str) -> Entry | None:
    """What XLA made of the function of this name, which is kept no longer.

    None if it is not there: TensorFlow was not asked, or had compiled the function before. All else
    is dropped, such as functions of the user's that their own calls compiled.
    """
    paths = _paths()
    entries = [_read(path) for path in paths]
    for path in paths:
        tf.io.gfile.remove(path)
    marked = f"{name.lstrip('_')}__XlaMustCompile".encode()
    return next((each for each in entries if marked in _field(each.module, 1)), None)


def _paths() -> list[str]:
    return [f"{FOLDER}/{name}" for name in tf.io.gfile.listdir(FOLDER)] if is_heard() else []


def _read(path: str) -> Entry:
    """The parts of an XlaSerializedCacheEntry, which holds a CompilationResultProto.

    Their classes are not part of TensorFlow's package; these are the fields' numbers in tensorflow/
    compiler/jit/xla_compilation_cache.proto and xla/service/cpu/executable.proto.
    """
    with tf.io.gfile.GFile(path, "rb") as file:
        result = _field(file.read(), 3)
    module_and_config, buffers = _field(result, 1), _field(result, 2)
    return Entry(_field(module_and_config, 1), buffers)


def _field(message: bytes, number: int) -> bytes:
    fields = UnknownFieldSet(Empty.FromString(message))
    return next((bytes(each.data) for each in fields if each.field_number == number), b"")
