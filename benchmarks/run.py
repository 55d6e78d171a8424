"""Runs every benchmark and writes what they found: `make bench` and `make bench-quick`.

The page is benchmarks/RESULTS.md with figures beside it; of any size but the full one, it is in
build/benchmarks. The full size takes hours: it goes on where it was interrupted, and what was
measured already, of the same sources of tf_memsafe and of the benchmarks, is measured again only if
build/benchmarks is removed. `--only NAME` runs one script again, and makes the page of its new
figures and the others' last ones; `--page` only makes the page.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from frame.case import Size
from frame.child import ROOT
from frame.machine import describe, versions_in
from frame.pictures import draw
from frame.results import document

HERE = Path(__file__).parent
BUILD = ROOT / "build/benchmarks"

COMPARISONS = (
    "knn",
    "knn_variants",
    "kernel_product",
    "kernel_gradient",
    "sgpr",
    "exact_gp",
    "attention",
    "chains",
    "first_call",
    "scaling",
)
TEXTS = ("fits", "overhead", "planner_scaling", "chain_planning")
"""They print a text, in the full size alone."""

COMMANDS = {"full": "make bench", "quick": "make bench-quick", "tiny": "run.py --size tiny"}
NOTES = "commands.txt"
"""In the folder of the results: the commands that made them, line by line."""

SCRIPTS = ("roofline", *COMPARISONS, *TEXTS)


def run(name: str, options: argparse.Namespace, folder: Path) -> bool:
    """Runs a script, which writes its JSON into `folder`; whether all went well."""
    print(f"== {name}", flush=True)
    start, output = time.perf_counter(), folder / f"{name}.json"
    command = [sys.executable, str(HERE / f"{name}.py")]
    if name in TEXTS:
        done = _text(command, output)
    else:
        command += ["--size", options.size, "--json", str(output)]
        if name in COMPARISONS:
            command += ["--peers", options.peers] if options.peers else []
            command += [] if options.only else ["--resume"]
        done = subprocess.run(command, env=_environment(), check=False).returncode == 0
    print(f"   {name} took {time.perf_counter() - start:.0f} s", flush=True)
    return done


def _text(command: list[str], output: Path) -> bool:
    done = subprocess.run(
        command, env=_environment(), stdout=subprocess.PIPE, text=True, check=False
    )
    print(done.stdout, end="", flush=True)
    if done.returncode == 0:
        claim = _docstring(Path(command[1]))
        output.write_text(json.dumps({"claim": claim, "text": done.stdout}, indent=1))
    return done.returncode == 0


def _docstring(script: Path) -> str:
    return script.read_text().split('"""')[1]


def _environment() -> dict[str, str]:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_MEMSAFE_PROGRESS": "0"}
    return {**os.environ, **quiet, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def note(folder: Path, whole: str | None, names: Sequence[str]) -> None:
    """Writes down what was run: a command for all scripts, or scripts that were run again."""
    again = [f"benchmarks/run.py --only {name}" for name in names]
    before = [] if whole else commands_in(folder)
    commands = list(dict.fromkeys([*before, *([whole] if whole else again)]))
    (folder / NOTES).write_text("\n".join(commands))


def commands_in(folder: Path) -> list[str]:
    """What the results in the folder were made by, in order."""
    notes = folder / NOTES
    return notes.read_text().splitlines() if notes.exists() else []


def unmeasured(name: str, result: dict[str, Any] | None, size: Size) -> list[str]:
    """The script, if it has no results, or those of its cases that have none."""
    if result is None:
        return [name]
    measured = {row["name"] for row in result.get("rows", [])}
    cases = import_module(name).cases(size) if name in COMPARISONS else ()
    return [f"{case.name} ({name})" for case in cases if case.name not in measured]


def write_page(folder: Path, page: Path, scripts: Sequence[str], size: Size) -> None:
    """The page of all the JSON in `folder`, and the figures in pictures/ beside it.

    It says which of the scripts, and of their cases, are not in it.
    """
    results: dict[str, dict[str, Any]] = {}
    for name in SCRIPTS:
        if (folder / f"{name}.json").exists():
            results[name] = json.loads((folder / f"{name}.json").read_text())
    pictures = [draw(name, result, page.parent / "pictures") for name, result in results.items()]
    machine = describe(versions_in(results.values()))
    names = [picture.name for picture in pictures if picture]
    missing = [each for name in scripts for each in unmeasured(name, results.get(name), size)]
    page.write_text(document(results, machine, commands_in(folder), names, missing))
    print(f"written: {page}")


def main() -> int:
    options = _options()
    folder = BUILD / options.size
    folder.mkdir(parents=True, exist_ok=True)
    full = options.size == "full"
    page = (HERE if full else folder) / "RESULTS.md"
    scripts = [name for name in SCRIPTS if full or name not in TEXTS]
    names = options.only or scripts
    failed = [] if options.page else [name for name in names if not run(name, options, folder)]
    if not options.page:
        note(folder, COMMANDS[options.size] if names == scripts else None, names)
    write_page(folder, page, scripts, Size(options.size))
    if failed:
        print(f"results differ or contenders failed in: {', '.join(failed)}")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=["full", "quick", "tiny"], default="full")
    parser.add_argument("--only", action="append", choices=SCRIPTS, metavar="NAME")
    parser.add_argument("--page", action="store_true", help="run nothing, write the page again")
    parser.add_argument("--peers", metavar="PYTHON", help="the interpreter of the peers")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
