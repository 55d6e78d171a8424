"""How much memory the machine has free, and how much this process holds."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path("/")


def free_memory() -> int:
    """The bytes that a new computation can have: of the GPU if there is one, else of the machine.

    A GPU counts where its limit is known (`tf.config.set_logical_device_configuration`). The
    machine has what its kernel calls available, or less if a control group (v1 or v2) allows less.

    Example: `free_memory() // 2**30` is the number of free GiB.
    """
    gpu = _gpu_memory()
    return _machine_memory(ROOT) if gpu is None else gpu


def resident_memory() -> int:
    """The bytes of this process that are in memory now; its peak on systems without /proc."""
    return _status("VmRSS") or _peak_from_usage()


def peak_resident_memory() -> int:
    """The most bytes of this process that were in memory since its start or the last reset."""
    return _status("VmHWM") or _peak_from_usage()


def reset_peak_resident_memory() -> None:
    """Starts the peak again from what is resident now; does nothing where that is not possible."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _gpu_memory() -> int | None:
    import tensorflow as tf  # noqa: PLC0415  # slow to import, and needed for "auto" only

    gpus = tf.config.get_visible_devices("GPU")
    devices = tf.config.get_logical_device_configuration(gpus[0]) if gpus else None
    if not devices or devices[0].memory_limit is None:
        return None
    used: int = tf.config.experimental.get_memory_info("GPU:0")["current"]
    return int(devices[0].memory_limit) * 2**20 - used


def _machine_memory(root: Path) -> int:
    available = _fields(root / "proc/meminfo").get("MemAvailable")
    if available is None:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([available * 1024, *_free_in_control_groups(root)])


class _Controller(NamedTuple):
    """Where one version of Linux's control groups says what a group may use and what it uses."""

    folder: str
    limit: str
    usage: str
    reclaimable: str


_V1 = _Controller(
    "sys/fs/cgroup/memory",
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "total_inactive_file",
)
_V2 = _Controller("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file")


def _free_in_control_groups(root: Path) -> Iterator[int]:
    """What each control group around this process still allows, if it has a limit."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or "memory" in controllers.split(","):
            controller = _V1 if controllers else _V2
            top = root / controller.folder
            group = top / path.lstrip("/")
            # A container may see its own group at the top and not at the path it is told.
            for folder in (group, *group.parents):
                if folder.is_relative_to(top):
                    yield from _free_in_control_group(folder, controller)


def _free_in_control_group(folder: Path, controller: _Controller) -> Iterator[int]:
    limit, usage = _text(folder / controller.limit), _text(folder / controller.usage)
    if limit.isdigit() and usage.isdigit():
        # The kernel drops cached file contents before it refuses memory.
        cached = _fields(folder / "memory.stat").get(controller.reclaimable, 0)
        yield int(limit) - int(usage) + cached


def _status(field: str) -> int:
    return _fields(Path("/proc/self/status")).get(field, 0) * 1024


def _peak_from_usage() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _fields(path: Path) -> dict[str, int]:
    """The lines `name: number ...` of a file, as a dictionary."""
    lines = (line.split() for line in _text(path).splitlines())
    return {
        words[0].rstrip(":"): int(words[1])
        for words in lines
        if len(words) > 1 and words[1].isdigit()
    }


def _text(path: Path) -> str:
    """The contents of a file without outer blanks, empty if it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
