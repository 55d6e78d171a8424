"""The command line of a benchmark: measures its cases, prints a table, writes JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .case import Case, Size
from .child import ROOT
from .measure import Plan
from .measure import measure as in_turns
from .sources import digest
from .table import line, problems

Rows = dict[str, dict[str, Any]]
"""What was measured of each case, by its name."""

PEERS = ROOT / ".venv-peers/bin/python"
ROUNDS = {Size.FULL: 5, Size.QUICK: 3, Size.TINY: 1}
PATIENCE = {Size.FULL: 15.0, Size.QUICK: 5.0, Size.TINY: 30.0}
TIMEOUT = {Size.FULL: 600.0, Size.QUICK: 30.0, Size.TINY: 60.0}


def main(
    claim: str | None,
    cases: Callable[[Size], Iterable[Case]],
    measure: Callable[[Case, Plan], dict[str, Any]] = in_turns,
) -> int:
    """Runs the script whose docstring is `claim`; 0 if all results agree with ours."""
    claim = claim or ""
    options = _parser(claim).parse_args()
    size = Size(options.size)
    plan = Plan(
        sys.executable,
        options.peers,
        options.rounds or ROUNDS[size],
        PATIENCE[size],
        options.timeout or TIMEOUT[size],
    )
    rows = _rows(options.json) if options.only or options.resume else {}
    if options.resume:
        rows = {name: row for name, row in rows.items() if row.get("sources") == digest()}
    every = list(cases(size))
    for case in every:
        if options.only and not any(name in case.name for name in options.only):
            continue
        if options.resume and case.name in rows:
            continue
        rows[case.name] = {**measure(case, plan), "sources": digest()}
        print(line(rows[case.name]), flush=True)
        _write(options.json, claim, [rows[each.name] for each in every if each.name in rows])
    return _verdict(rows)


def _rows(path: Path | None) -> Rows:
    """What was measured before, by name."""
    found = json.loads(path.read_text())["rows"] if path and path.exists() else []
    return {row["name"]: row for row in found}


def _write(path: Path | None, claim: str, rows: list[dict[str, Any]]) -> None:
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"claim": claim, "rows": rows}, indent=1))


def _verdict(rows: Rows) -> int:
    found = problems([*rows.values()])
    print(*found, sep="\n")
    return 1 if found else 0


def _parser(claim: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=claim, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = [size.value for size in Size]
    parser.add_argument("--size", choices=sizes, default="full", help="of the data")
    parser.add_argument("--only", action="append", metavar="TEXT", help="these cases; others stay")
    parser.add_argument(
        "--resume", action="store_true", help="not what was measured already, of the same sources"
    )
    parser.add_argument("--rounds", type=int, help="turns of each contender")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="of a call, at most")
    parser.add_argument("--json", type=Path, metavar="FILE", help="what RESULTS.md is made from")
    parser.add_argument(
        "--peers",
        default=os.environ.get("BENCH_PEERS", str(PEERS)),
        metavar="PYTHON",
        help="the peers' interpreter (default: $BENCH_PEERS, or what `make bench` sets up)",
    )
    return parser
