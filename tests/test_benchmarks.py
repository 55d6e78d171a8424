"""The benchmarks: each does its work at a tiny size, and their page says what was measured."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tf_memsafe
from tests.slow import slow_where

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"

pytestmark = pytest.mark.usefixtures("benchmarks_on_path")

SCRIPTS = (
    "attention",
    "chains",
    "exact_gp",
    "first_call",
    "kernel_gradient",
    "kernel_product",
    "knn",
    "knn_variants",
    "scaling",
    "sgpr",
)


def test_every_comparison_is_tested() -> None:
    assert sorted(importlib.import_module("run").COMPARISONS) == sorted(SCRIPTS)


LONG = {"chains", "knn_variants", "sgpr"}
"""What takes longest to compile; `make test-all` has these as well."""


@pytest.mark.parametrize("name", slow_where(LONG.__contains__, SCRIPTS))
def test_contenders_that_are_installed_agree(name: str, tmp_path: Path) -> None:
    script, frame = importlib.import_module(name), importlib.import_module("frame.case")
    for number, case in enumerate(script.cases(frame.Size.TINY)):
        folder = tmp_path / str(number)
        folder.mkdir()
        for key, array in case.data().items():
            np.save(folder / f"{key}.npy", array)
        found = [
            (contender, result(case, contender, folder))
            for contender in case.contenders
            if installed(contender.module)
        ]
        (_, ours), *others = found
        for contender, other in others:
            agree = contender.floor or case.agreement(ours, other) <= case.tolerance
            assert agree, f"{case.name}: {contender.name}"


def installed(module: str) -> bool:
    try:
        importlib.import_module(f"contenders.{module}")
    except ModuleNotFoundError:
        return False
    return True


def result(case: Any, contender: Any, folder: Path) -> list[Any]:
    """What the contender's worker saves, here without a process of its own."""
    worker = importlib.import_module("frame.worker").Worker(
        {
            "module": f"contenders.{contender.module}",
            "work": contender.work or case.work,
            "options": {**case.options, **contender.options},
            "limit": contender.limit,
            "folder": str(folder),
            "result": str(folder / "result.npz"),
        }
    )
    worker.setup()
    worker.first()
    tf_memsafe.set_memory_limit(None)
    with np.load(folder / "result.npz") as arrays:
        return [arrays[key] for key in arrays.files]


def test_a_script_runs_alone_and_says_who_is_missing(tmp_path: Path) -> None:
    output = tmp_path / "knn.json"
    command = [sys.executable, str(BENCHMARKS / "knn.py"), "--size", "tiny"]
    command += ["--peers", str(tmp_path / "python"), "--json", str(output)]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(output.read_text())["rows"]
    ours, *peers, plain = row["contenders"]
    assert ours["seconds"][0] > 0
    assert plain["agrees"]
    assert all("not installed" in peer["problem"] for peer in peers)
    assert "not installed" in done.stdout


# --- the page -----------------------------------------------------------------------------------


def outcome(name: str, seconds: list[float], **values: Any) -> dict[str, Any]:
    measured = importlib.import_module("frame.measure").Outcome(name, seconds=seconds, **values)
    return vars(measured)


def results() -> dict[str, Any]:
    """Two scripts: one that prints a text, and one with two cases."""
    ours = {"limit": 500_000_000, "proven": 345_000_000, "whole": 166_000_000_000}
    least = {"flops": 8e9, "exponentials": 0, "bytes": 0, "dtype": "float32"}
    first = [
        outcome("tf_memsafe", [0.5, 0.4, 0.6], resident=200_000_000, **ours),
        outcome("Fast", [0.25, 0.2, 0.3], speed=1.0, resident=1_000_000_000, note="by hand"),
        outcome("Slow", [], problem="over 120 s", over=120.0, speed=2.0),
    ]
    second = [
        outcome("tf_memsafe", [0.002]),
        outcome("Fast", [0.004], speed=1.0, error=0.5, agrees=False),
        outcome("Slow", [0.002], speed=2.0),
        outcome("a part", [0.0015], floor=True),
    ]
    rows = [
        {"name": "large", "series": "", "least": least, "contenders": first},
        {"name": "small", "series": "", "least": {**least, "flops": 0}, "contenders": second},
    ]
    numbers = {"flops float32": 80e9, "exponentials float32": 1e9, "bytes": 1e10}
    return {
        "roofline": {
            "claim": "The best.\n\nOf runs.\n",
            "text": "80 GFLOP/s\n",
            "numbers": numbers,
        },
        "knn": {"claim": "Searching is fast.\n\nAt all sizes.\n", "rows": rows},
    }


PAGE = """\
## Machine

- Cores: 2

## The best

Of runs.

`benchmarks/roofline.py`

```text
80 GFLOP/s
```

## Searching is fast

At all sizes.

`benchmarks/knn.py`

| seconds | tf_memsafe | Fast | Slow | *a part* | bound | target |
| --- | --- | --- | --- | --- | --- | --- |
| large | 500 ms ±40% | 250 ms ±40% (0.50x) | over 120 s |  | 20% | **Fast: 0.50x of 1.00x** |
| small | 2.00 ms | 4.00 ms (2.00x) **differs by 5e-01** | 2.00 ms (1.00x) | 1.50 ms (0.75x) |  | \
**Slow: 1.00x of 2.00x, out of reach: a part takes 0.75 of its time** |

| MB | limit | as written | proven | resident: tf_memsafe | resident: Fast | resident: Slow |
| --- | --- | --- | --- | --- | --- | --- |
| large | 500 | 166,000 | 345 | 200 | 1,000 |  |
| small |  | fits |  | 0 | 0 | 0 |

- Fast: by hand

![Searching is fast](pictures/knn.png)
"""


def test_the_page_has_medians_ratios_peaks_and_what_is_not_met() -> None:
    document = importlib.import_module("frame.results").document
    page = document(results(), {"Cores": "2"}, ["make bench"], ["knn.png"])
    assert "Made by `make bench`.\n" in page
    assert page[page.index("## Machine") :] == PAGE


def test_the_page_says_what_is_not_in_it() -> None:
    document = importlib.import_module("frame.results").document
    page = document(results(), {"Cores": "2"}, ["make bench"], [], ["fits", "scaling"])
    assert "Made by `make bench`. Not run: fits, scaling.\n" in page


def test_a_case_without_a_row_is_not_measured() -> None:
    run, size = importlib.import_module("run"), importlib.import_module("frame.case").Size.QUICK
    rows = [{"name": "60,000 x 100"}]
    assert run.unmeasured("knn", {"rows": rows}, size) == ["200,000 x 3 (knn)"]
    assert run.unmeasured("knn", None, size) == ["knn"]
    assert run.unmeasured("fits", {"text": ""}, size) == []


def test_the_page_says_what_was_run_again(tmp_path: Path) -> None:
    run = importlib.import_module("run")
    run.note(tmp_path, None, ["knn"])
    run.note(tmp_path, "make bench", ["knn", "fits"])
    run.note(tmp_path, None, ["fits"])
    run.note(tmp_path, None, ["fits"])
    commands = run.commands_in(tmp_path)
    assert commands == ["make bench", "benchmarks/run.py --only fits"]
    page = importlib.import_module("frame.results").document({}, {}, commands, [])
    assert "Made by `make bench`, then `benchmarks/run.py --only fits`.\n" in page


def test_results_that_differ_are_problems() -> None:
    problems = importlib.import_module("frame.table").problems
    assert problems(results()["knn"]["rows"]) == ["small: Fast differs by 5.0e-01"]


@pytest.mark.parametrize("series", ["", "curve"])
def test_figures_are_drawn(series: str, tmp_path: Path) -> None:
    draw = importlib.import_module("frame.pictures").draw
    found = results()["knn"]
    for row in found["rows"]:
        row["series"] = series
        row["least"]["flops"] = 1.0
    path = draw("knn", found, tmp_path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert draw("roofline", results()["roofline"], tmp_path) is None
