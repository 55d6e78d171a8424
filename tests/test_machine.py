"""What the machine and its control groups have free, read from made-up and real files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tf_memsafe import machine
from tf_memsafe.machine import (
    free_memory,
    peak_resident_memory,
    reset_peak_resident_memory,
    resident_memory,
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up file system in the place of the machine's own."""
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    write(tmp_path / "proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    8000 kB\nHugePages: 0")
    return tmp_path


def write(path: Path, text: str | int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def test_the_machine_alone(root: Path) -> None:
    assert free_memory() == 8000 * 1024


def test_control_group_v2(root: Path) -> None:
    write(root / "proc/self/cgroup", "0::/user/job")
    group = root / "sys/fs/cgroup/user/job"
    write(group / "memory.max", 5_000_000)
    write(group / "memory.current", 3_000_000)
    assert free_memory() == 2_000_000
    write(group / "memory.stat", "anon 2500000\ninactive_file 400000")
    assert free_memory() == 2_400_000


def test_control_group_v1(root: Path) -> None:
    write(root / "proc/self/cgroup", "5:devices:/\n4:cpu,memory:/job\n0::/")
    group = root / "sys/fs/cgroup/memory/job"
    write(group / "memory.limit_in_bytes", 5_000_000)
    write(group / "memory.usage_in_bytes", 3_000_000)
    write(group / "memory.stat", "inactive_file 1\ntotal_inactive_file 500000")
    assert free_memory() == 2_500_000


@pytest.mark.parametrize("limit", ["max", "9223372036854771712"])
def test_a_control_group_without_a_limit(root: Path, limit: str) -> None:
    write(root / "proc/self/cgroup", "0::/")
    write(root / "sys/fs/cgroup/memory.max", limit)
    write(root / "sys/fs/cgroup/memory.current", 1)
    assert free_memory() == 8000 * 1024


def test_the_tightest_group_around_the_process_counts(root: Path) -> None:
    write(root / "proc/self/cgroup", "0::/user/job")
    for folder, limit in [("user/job", 5_000_000), ("user", 4_000_000), ("", 6_000_000)]:
        write(root / "sys/fs/cgroup" / folder / "memory.max", limit)
        write(root / "sys/fs/cgroup" / folder / "memory.current", 1_000_000)
    assert free_memory() == 3_000_000


def test_a_container_that_sees_its_group_at_the_top(root: Path) -> None:
    write(root / "proc/self/cgroup", "4:memory:/docker/0123456789ab")
    write(root / "sys/fs/cgroup/memory/memory.limit_in_bytes", 5_000_000)
    write(root / "sys/fs/cgroup/memory/memory.usage_in_bytes", 1_000_000)
    assert free_memory() == 4_000_000


def test_a_system_without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    assert free_memory() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_a_gpu_with_a_known_limit(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = tf.config.LogicalDeviceConfiguration(memory_limit=4)
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [f"{kind}:0"])
    monkeypatch.setattr(tf.config, "get_logical_device_configuration", lambda _: [device])
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", lambda _: {"current": 1000})
    assert free_memory() == 4 * 2**20 - 1000


def test_a_gpu_without_a_known_limit(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [f"{kind}:0"])
    monkeypatch.setattr(tf.config, "get_logical_device_configuration", lambda _: None)
    assert free_memory() == 8000 * 1024


def test_this_machine_has_memory_free() -> None:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < free_memory() <= total


def test_resident_memory_follows_what_is_held() -> None:
    reset_peak_resident_memory()
    before = resident_memory()
    held = np.ones(64 * 2**20, np.uint8)
    during = resident_memory()
    del held
    assert during - before > 48 * 2**20
    assert peak_resident_memory() - before > 48 * 2**20
