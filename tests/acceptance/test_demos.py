"""Demos in processes of their own, small in `make test`, and at full size in `make test-all`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.processes import ROOT
from tests.slow import slow_where

COMPILER = 400_000_000
"""Bytes that a small demo may hold above its limit: XLA's compiler and threads, and libraries."""

OVERHEAD = 1.25
"""Of the limit: what a demo at full size may hold, beside the compiler."""


class Demo(NamedTuple):
    """A demo and its arguments."""

    name: str
    arguments: str


SMALL = (
    Demo(
        "sparse_gp",
        "--num-train 1500 --num-test 300 --num-inducing 40 --iterations 4 --memory-limit 1500kB",
    ),
    Demo(
        "knn",
        "--points 3000 --queries 200 --neighbours 5 --classified-points 500 --forms l2 "
        "--classified-queries 50 --sweep-points 3000 --sweep-queries 300 --memory-limit 2MB",
    ),
    Demo(
        "kernel_mvm",
        "--points 5000 --num-train 1000 --num-test 200 --num-subset 100 "
        "--num-cholesky 1000 --num-cglb 100 --num-inducing 10 --memory-limit 3MB",
    ),
    Demo(
        "attention",
        "--heads 2 --size 16 --lengths 512 --limits 1MB --memory-limit 2MB "
        "--steps 60 --batch 16 --side 8 --patch 1 --width 32 --layers 1 "
        "--train-memory-limit 2500kB",
    ),
    Demo("mmd", "--num 500 --memory-limit 2MB"),
    Demo("affinities", "--num 600 --memory-limit 2MB"),
    Demo("sinkhorn", "--num 600 --memory-limit 2MB"),
    Demo("kernel_ridge", "--num-train 2000 --num-test 300 --centres 20 80 --memory-limit 1500kB"),
    Demo("wide_network", "--num-train 1000 --memory-limit 3MB"),
)

LONG = {"affinities", "mmd", "sinkhorn"}
"""Small demos that `make test-all` alone runs: tests/demos has what they compute."""

DRAW_NOTHING = {"train", "exact"}
"""Parts of the attention and kernel_mvm demos whose results are a text alone."""

FULL = (
    Demo("sparse_gp", "--num-inducing 500 --iterations 30 --memory-limit 1GB"),
    Demo("sparse_gp", "--num-inducing 2000 --iterations 0 --memory-limit 1GB"),
    Demo("knn", "--memory-limit 1GB"),
    Demo("kernel_mvm", "--parts product --points 1000000 --memory-limit 500MB"),
    Demo("kernel_mvm", "--parts exact cglb --memory-limit 300MB"),
    Demo("attention", "--parts sweep --lengths 16384 --memory-limit 1GB"),
    Demo("attention", "--parts train"),
    Demo("mmd", ""),
    Demo("affinities", ""),
    Demo("sinkhorn", ""),
    Demo("kernel_ridge", ""),
    Demo("wide_network", ""),
)


def identify(demo: Demo) -> str:
    return f"{demo.name} {demo.arguments}".strip()


def run(demo: Demo, folder: Path) -> dict[str, Any]:
    """What a demo writes down; it has to find itself right, and to draw its figure."""
    results, figure = folder / "results.json", folder / "figure.png"
    arguments = [*demo.arguments.split(), "--results", str(results), "--figure", str(figure)]
    done = subprocess.run(
        [sys.executable, "-m", f"tf_memsafe.demos.{demo.name}", *arguments],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": ROOT},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "Every check passed." in done.stdout
    found: dict[str, Any] = json.loads(results.read_text())
    assert found["right"]
    if not DRAW_NOTHING & set(demo.arguments.split()):
        assert figure.read_bytes().startswith(b"\x89PNG")
    return found


def calls(found: Any, limit: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """The calls that a demo's results tell of, at whatever depth, each after its limit."""
    if isinstance(found, dict):
        limit = found.get("memory_limit", limit)
        if "peak_after" in found:
            yield limit, found
        found = list(found.values())
    if isinstance(found, list):
        for each in found:
            yield from calls(each, limit)


@pytest.mark.parametrize("demo", slow_where(lambda demo: demo.name in LONG, SMALL), ids=identify)
def test_a_small_demo(demo: Demo, tmp_path: Path) -> None:
    made = list(calls(run(demo, tmp_path)))
    assert any(call["peak_before"] > limit for limit, call in made)
    for limit, call in made:
        assert call["peak_after"] <= limit
        assert call["resident"] <= limit + COMPILER


@pytest.mark.slow
@pytest.mark.parametrize("demo", FULL, ids=identify)
def test_a_demo_at_full_size(demo: Demo, tmp_path: Path) -> None:
    for limit, call in calls(run(demo, tmp_path)):
        assert call["peak_after"] <= limit
        assert call["resident"] <= OVERHEAD * limit + COMPILER
