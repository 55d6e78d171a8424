"""Measures a case: its contenders take turns, so that what disturbs one disturbs the others."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .case import Case, Contender
from .child import MOST_MEMORY, START_TIMEOUT, Child, StoppedError

PAUSE = 0.3
"""Seconds before each turn: threads of the one before may still spin."""


@dataclass
class Outcome:
    """What came of a contender.

    seconds: of each turn. first: of the first call, its compilation included. resident: bytes by
    which the process grew at most, over one that holds its libraries and the data. proven, whole:
    tf_memsafe's peak under the limit, and that of the function as written, in bytes. error: how far
    the result is from ours. problem: why there is no figure.
    """

    name: str
    note: str = ""
    speed: float | None = None
    memory: float | None = None
    floor: bool = False
    limit: int | None = None
    seconds: list[float] = field(default_factory=list)
    first: float | None = None
    resident: int = 0
    proven: int | None = None
    whole: int | None = None
    loops: int | None = None
    error: float | None = None
    agrees: bool = True
    problem: str = ""
    over: float | None = None
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """How a case is measured.

    python, peers: interpreters of the two environments. rounds: turns of each contender. patience:
    seconds after which a contender has no further turn. timeout: of a call, at most.
    """

    python: str
    peers: str
    rounds: int = 5
    patience: float = 60
    timeout: float = 600


def measure(case: Case, plan: Plan) -> dict[str, Any]:
    """The case as plain data, ready for JSON."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        for key, array in case.data().items():
            np.save(folder / f"{key}.npy", array)
        outcomes = _Turns(case, plan, folder).run()
    return {
        "name": case.name,
        "series": case.series,
        "least": asdict(case.least),
        "contenders": [asdict(each) for each in outcomes],
    }


class _Turns:
    """The contenders of a case, those that are still in, and what they have come to."""

    def __init__(self, case: Case, plan: Plan, folder: Path) -> None:
        self.case, self.plan = case, plan
        self.timeout = min(case.timeout, plan.timeout)
        self.outcomes = [_outcome(contender) for contender in case.contenders]
        self.results = [folder / f"result-{i}.npz" for i in range(len(self.outcomes))]
        self.children: dict[int, Child] = {}
        for i, contender in enumerate(case.contenders):
            python = plan.peers if contender.peer else plan.python
            if Path(python).exists():
                self.children[i] = Child(python, case, contender, self.results[i])
            else:
                self.outcomes[i].problem = f"not installed (no {python})"

    def run(self) -> list[Outcome]:
        everyone = list(self.children)
        try:
            self._each(everyone, self._hello)
            for group in [[i] for i in everyone] if self.case.alone else [everyone]:
                self._measure(group)
        finally:
            self._close(list(self.children))
        return self.outcomes

    def _measure(self, group: list[int]) -> None:
        self._each(group, self._prepare)
        for _ in range(min(self.case.rounds, self.plan.rounds)):
            self._each(group, self._turn)
        if self.case.alone:
            self._close(group)

    def _close(self, group: list[int]) -> None:
        for i in group:
            if i in self.children:
                self.children.pop(i).close()

    def _each(self, group: list[int], step: Callable[[int], None]) -> None:
        for i in group:
            if i not in self.children:
                continue
            try:
                step(i)
            except StoppedError as stopped:
                self.outcomes[i].problem = str(stopped)
                self.outcomes[i].over = stopped.seconds
                del self.children[i]

    def _hello(self, i: int) -> None:
        self.outcomes[i].versions = self.children[i].hello()

    def _prepare(self, i: int) -> None:
        child, outcome = self.children[i], self.outcomes[i]
        needed = self.outcomes[0].whole or 0
        if child.contender.whole and needed > MOST_MEMORY:
            child.close()
            raise StoppedError(f"needs {needed / 1e9:.0f} GB")
        child.ask("setup", START_TIMEOUT)
        found = child.ask("first", self.timeout)
        outcome.first, outcome.resident = found["seconds"], found["resident"]
        for key, value in child.ask("report", self.timeout).items():
            setattr(outcome, key, value)
        self._compare(i)
        if child.contender.eager and outcome.first > self.plan.patience:
            outcome.seconds = [outcome.first]

    def _compare(self, i: int) -> None:
        """A wrong result is shown beside its time, whichever is the wrong one."""
        outcome = self.outcomes[i]
        if not i or outcome.floor or self.outcomes[0].first is None:
            return
        reference, result = _saved(self.results[0]), _saved(self.results[i])
        outcome.error = self.case.agreement(reference, result)
        outcome.agrees = outcome.error <= self.case.tolerance

    def _turn(self, i: int) -> None:
        outcome = self.outcomes[i]
        used = (outcome.first or 0) + sum(outcome.seconds)
        if outcome.seconds and used > self.plan.patience:
            return
        time.sleep(PAUSE)
        found = self.children[i].ask("run", self.timeout)
        # The first call's peak has the compiler in it.
        outcome.resident = max(found["resident"], outcome.resident if outcome.seconds else 0)
        outcome.seconds.append(found["seconds"])


def _outcome(contender: Contender) -> Outcome:
    return Outcome(
        contender.name,
        contender.note,
        contender.speed,
        contender.memory,
        contender.floor,
        contender.limit,
    )


def _saved(path: Path) -> list[Any]:
    with np.load(path) as arrays:
        return [arrays[name] for name in arrays.files]
