"""What XLA made of programs, kept on disk for the next process: to compile is what takes long.

`TF_MEMSAFE_CACHE` names the folder. Without it nothing is kept. It can be deleted at any time.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import tensorflow as tf

VARIABLE = "TF_MEMSAFE_CACHE"
"""The environment variable with the folder's path."""

FLAGS = ("XLA_FLAGS", "TF_XLA_FLAGS")
"""Environment variables that change what XLA makes of a program."""

PROCESSOR = ("model name", "flags", "Features")
"""The lines of /proc/cpuinfo that tell for which instructions XLA compiles."""

_logger = logging.getLogger("tf_memsafe")


def remembered(identify: Callable[[], bytes], compile: Callable[[], bytes]) -> bytes:
    """What `compile` returns, from disk if it was kept there for the same program.

    identify: returns all that tells one program from others, as bytes. Asked only if there is a
    folder. Part of a file's name is a digest of that, of TensorFlow's version, of XLA's flags and
    of the machine: after an upgrade other files are read and written. What `compile` raises is
    raised, and not kept.
    """
    folder = os.environ.get(VARIABLE)
    if not folder:
        return compile()
    path = Path(folder).expanduser() / f"{_digest(identify())}.hlo.zlib"
    known = _read(path)
    if known is None:
        known = compile()
        _write(path, known)
    return known


def anonymous(module: Any) -> bytes:
    """An HloModuleProto without what counts the functions of the process, which is changed."""
    module.name, module.entry_computation_name, module.id = "", "", 0
    for computation in module.computations:
        computation.name = ""
    program: bytes = module.SerializeToString(deterministic=True)
    return program


def _digest(program: bytes) -> str:
    settings = [os.environ.get(name, "") for name in FLAGS]
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    parts = [tf.version.VERSION, tf.version.GIT_VERSION, *settings, str(threads), *_machine()]
    return hashlib.sha256(b"\0".join([*map(str.encode, parts), program])).hexdigest()


@cache
def _machine() -> list[str]:
    """What the machine's code and its split among threads depend on."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else [platform.node()]
    processor = sorted({line for line in lines if line.startswith(PROCESSOR)} or {platform.node()})
    return [platform.machine(), str(os.cpu_count()), *processor, *_devices()]


def _devices() -> list[str]:
    found = tf.config.list_physical_devices("GPU")
    return [str(sorted(tf.config.experimental.get_device_details(each).items())) for each in found]


def _read(path: Path) -> bytes | None:
    try:
        return zlib.decompress(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, zlib.error) as error:
        _logger.warning("%s cannot be read (%s); the program is compiled instead", path, error)
        return None


def _write(path: Path, content: bytes) -> None:
    """Writes the file at once, for processes that read it at the same time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(zlib.compress(content))
        Path(file.name).replace(path)
    except OSError as error:
        _logger.warning("%s cannot be written (%s); programs are not kept", path, error)
