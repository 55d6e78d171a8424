"""The benchmarks: each does its work at a tiny size, and their page says what was measured."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tf_memsafe
from tests.slow import slow_where

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def on_path() -> Iterator[None]:
    """The scripts import each other as they do when they are run."""
    before = set(sys.modules)
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))
    for name in set(sys.modules) - before:
        if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


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


# --- a contender that takes too much ------------------------------------------------------------

SLOW = """
import sys
print('{"versions": {}}', flush=True)
for line in sys.stdin:
    if line.strip() == "setup":
        REACTION
"""


@pytest.mark.parametrize(
    ("reaction", "reason"),
    [
        ("import time; time.sleep(60)", "over 1 s"),
        ("held = bytearray(300_000_000); import time; time.sleep(60)", "over 0 GB"),
        ("raise ValueError('no such thing')", "failed: ValueError: no such thing"),
    ],
)
def test_a_contender_without_a_figure_says_why(
    reaction: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = importlib.import_module("frame.child")
    if reason == "over 0 GB":
        monkeypatch.setattr(child, "MOST_MEMORY", 200_000_000)
    asked = child_of(tmp_path, SLOW.replace("REACTION", reaction))
    assert asked.hello() == {}
    with pytest.raises(child.StoppedError, match=reason):
        asked.ask("setup", 30 if "GB" in reason else 1)


def test_a_contender_that_is_dead_when_it_is_asked_has_failed(tmp_path: Path) -> None:
    asked = child_of(tmp_path, "print('{\"versions\": {}}', flush=True)")
    asked.hello()
    asked._process.wait()
    with pytest.raises(importlib.import_module("frame.child").StoppedError, match="failed"):
        asked.ask("setup", 30)


def child_of(folder: Path, worker: str) -> Any:
    """A contender's process that runs this script as its worker."""
    script = folder / "frame" / "worker.py"
    script.parent.mkdir()
    (script.parent / "__init__.py").touch()
    script.write_text(worker)
    frame = importlib.import_module("frame.case")
    contender = frame.Contender("slow", "none")
    case = frame.Case("case", "work", [contender], dict)
    child = importlib.import_module("frame.child").Child
    return child(sys.executable, case, contender, folder / "result.npz")


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


def test_a_case_that_is_measured_again_stays_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, frame = map(importlib.import_module, ("frame.command", "frame.case"))
    cases = [frame.Case(name, "work", [], dict) for name in ("first", "second", "third")]
    path, measured = tmp_path / "found.json", iter(range(9))

    def measure(case: Any, _: Any) -> dict[str, Any]:
        return {"name": case.name, "contenders": [], "turn": next(measured)}

    for options in ([], ["--only", "second"]):
        monkeypatch.setattr(sys, "argv", ["script", "--json", str(path), *options])
        assert command.main("Claim.", lambda _: cases, measure) == 0
    rows = json.loads(path.read_text())["rows"]
    assert [(row["name"], row["turn"]) for row in rows] == [
        ("first", 0),
        ("second", 3),
        ("third", 2),
    ]


@pytest.mark.parametrize(
    ("alone", "order"), [(False, ["a", "b", "a", "b"]), (True, ["a", "a", "b", "b"])]
)
def test_contenders_take_turns_unless_each_is_alone(
    alone: bool, order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    measure, frame = map(importlib.import_module, ("frame.measure", "frame.case"))
    turns: list[str] = []
    closed: list[str] = []

    class Fake:
        def __init__(self, python: str, case: Any, contender: Any, result: Path) -> None:
            self.contender = contender
            np.savez(result, 0)

        def hello(self) -> dict[str, str]:
            return {}

        def ask(self, command: str, timeout: float) -> dict[str, Any]:
            if command == "run":
                assert not alone or self.contender.name == "a" or closed == ["a"]
                turns.append(self.contender.name)
            return {} if command == "report" else {"seconds": 1.0, "resident": 0}

        def close(self) -> None:
            closed.append(self.contender.name)

    monkeypatch.setattr(measure, "Child", Fake)
    monkeypatch.setattr(measure, "PAUSE", 0)
    contenders = [frame.Contender(name, "none", peer=False) for name in ("a", "b")]
    case = frame.Case("case", "work", contenders, dict, rounds=2, alone=alone)
    measure.measure(case, measure.Plan(sys.executable, ""))
    assert turns == order
    assert closed == ["a", "b"]


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
