"""What the benchmarks ran on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil


def processor() -> str:
    """The processor's name, and its largest vectors' instructions."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    fields = dict(reversed([_field(line) for line in lines if ":" in line]))
    name = fields.get("model name") or platform.processor() or platform.machine()
    vectors = [kind for kind in ("avx512f", "avx2") if kind in fields.get("flags", "").split()]
    return ", ".join([name, *vectors[:1]])


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()


def describe(versions: dict[str, str]) -> dict[str, str]:
    """The machine and the versions of what ran, by name."""
    return {
        "Date": time.strftime("%Y-%m-%d"),
        "Processor": processor(),
        "Cores": str(os.cpu_count()),
        "Memory": f"{psutil.virtual_memory().total / 2**30:.1f} GiB",
        "System": f"{platform.system()} {platform.release().split('-')[0]}",
        "Python": platform.python_version(),
        "Versions": ", ".join(f"{name} {version}" for name, version in sorted(versions.items())),
    }


def versions_in(results: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Of all libraries that any contender had; NumPy's of either environment is the same pin."""
    found: dict[str, str] = {}
    for result in results:
        for row in result.get("rows", []):
            for outcome in row["contenders"]:
                found.update(outcome["versions"])
    return found
