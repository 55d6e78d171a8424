"""What all demos share: their arguments, and what their processes end with."""

from __future__ import annotations

import argparse
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import tf_memsafe
from tf_memsafe.demos import arguments

DEMOS = (
    "affinities",
    "attention",
    "kernel_mvm",
    "kernel_ridge",
    "knn",
    "mmd",
    "sinkhorn",
    "sparse_gp",
    "wide_network",
)


@pytest.mark.parametrize("name", DEMOS)
def test_each_demo_tells_of_its_arguments(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        import_module(f"tf_memsafe.demos.{name}").main(["--help"])
    assert caught.value.code == 0
    text = capfd.readouterr().out
    assert f"python -m tf_memsafe.demos.{name} --memory-limit" in text
    for argument in ("--memory-limit", "--seed", "--figure", "--results"):
        assert argument in text


@pytest.mark.parametrize(("right", "status"), [(True, 0), (False, 1)])
def test_the_results_are_written_and_the_status_says_whether_they_are_right(
    right: bool, status: int, tmp_path: Path
) -> None:
    def demo(options: argparse.Namespace) -> dict[str, Any]:
        assert tf_memsafe.get_memory_limit() == 1_000_000
        return {"right": right, "seed": options.seed}

    path = tmp_path / "folder" / "results.json"
    given = ["--memory-limit", "1MB", "--seed", "3", "--results", str(path)]
    assert arguments.run(demo, arguments.parser("name", None), given) == status
    found = json.loads(path.read_text())
    assert found == {"memory_limit": 1_000_000, "right": right, "seed": 3}


def test_what_is_not_a_limit_is_a_wrong_argument(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        arguments.run(lambda _: {}, arguments.parser("name", None), ["--memory-limit", "lots"])
    assert caught.value.code == 2
    assert "'lots' is not a memory limit" in capfd.readouterr().err
