"""How benchmarks measure: whose turn it is, what a contender may take, and what is kept."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("benchmarks_on_path")


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


# --- turns, and rows that are measured again ----------------------------------------------------


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


def test_what_was_measured_of_the_same_sources_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, frame = map(importlib.import_module, ("frame.command", "frame.case"))
    path, measured = tmp_path / "found.json", list[str]()

    def measure(case: Any, _: Any) -> dict[str, Any]:
        if case.name == "second" and len(measured) == 1:
            raise KeyboardInterrupt
        measured.append(case.name)
        return {"name": case.name, "contenders": []}

    def run() -> None:
        monkeypatch.setattr(sys, "argv", ["script", "--json", str(path), "--resume"])
        cases = [frame.Case(name, "work", [], dict) for name in ("first", "second", "third")]
        command.main("Claim.", lambda _: cases, measure)

    with pytest.raises(KeyboardInterrupt):
        run()
    measured.append("interrupted")
    run()
    run()
    assert measured == ["first", "interrupted", "second", "third"]
    monkeypatch.setattr(command, "digest", lambda: "other sources")
    run()
    assert measured[4:] == ["first", "second", "third"]


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
