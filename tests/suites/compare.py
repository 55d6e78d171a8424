"""Runs another project's tests without a memory limit and with one, and compares what fails.

    python -m tests.suites.compare DIR --limit 50MB -- tests/gpflow/kernels

DIR is a checkout of the project; what follows `--` goes to pytest. Each folder of tests runs in
processes of its own: TensorFlow keeps all programs of a process, and a whole suite's are too many
for one. The exit code is 1 if a test fails or is missing with the limit alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]


class Outcome(NamedTuple):
    """What became of a suite's tests, by name."""

    passed: frozenset[str]
    failed: frozenset[str]
    skipped: frozenset[str]

    def __str__(self) -> str:
        return f"{len(self.passed)} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"


def run(folder: Path, arguments: Sequence[str], limit: str | None) -> Outcome:
    """Runs pytest for each folder of tests in a project's folder; under a limit if there is one."""
    paths = [argument for argument in arguments if (folder / argument).is_dir()]
    others = [argument for argument in arguments if argument not in paths]
    parts = [part for path in paths for part in folders(folder / path)] or [[]]
    outcomes = [run_part(folder, [*others, *part], limit) for part in parts]
    return Outcome(*(frozenset().union(*names) for names in zip(*outcomes, strict=True)))


def folders(path: Path) -> Iterator[list[str]]:
    """The test files of a folder, and then of each of the folders in it."""
    for folder in sorted({file.parent for file in path.rglob("test_*.py")}):
        yield [str(file.absolute()) for file in sorted(folder.glob("test_*.py"))]


def run_part(folder: Path, arguments: Sequence[str], limit: str | None) -> Outcome:
    """Runs pytest in a project's folder once."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    plugin = []
    if limit is not None:
        environment["TF_MEMSAFE_SUITE_LIMIT"] = limit
        plugin = ["-p", "tests_of_tf_memsafe.limited"]
    with tempfile.TemporaryDirectory() as scratch:
        # The project may have a package named `tests` as well.
        (Path(scratch) / "tests_of_tf_memsafe").symlink_to(Path(__file__).parent)
        environment["PYTHONPATH"] += os.pathsep + scratch
        results = Path(scratch) / "results.xml"
        # A file's tests stay together: some of GPflow's look at what others of the file did.
        workers = ["-n", "2", "--dist", "loadfile"]
        command = [sys.executable, "-m", "pytest", "-q", *workers, f"--junitxml={results}"]
        subprocess.run([*command, *plugin, *arguments], cwd=folder, env=environment, check=False)
        return read(results)


def read(results: Path) -> Outcome:
    """The outcome that a JUnit file tells of."""
    found: dict[str, set[str]] = {"passed": set(), "failed": set(), "skipped": set()}
    for case in ElementTree.parse(results).iter("testcase"):
        tags = {child.tag for child in case}
        kind = "failed" if tags & {"failure", "error"} else "skipped"
        kind = kind if tags & {"failure", "error", "skipped"} else "passed"
        found[kind].add(f"{case.get('classname')}::{case.get('name')}")
    return Outcome(*(frozenset(names) for names in found.values()))


def compare(without: Outcome, limited: Outcome) -> int:
    """Prints both outcomes and their difference; 1 if the limit makes one worse."""
    for title, outcome in (("without a limit", without), ("with the limit", limited)):
        print(f"\n{title}: {outcome}")
        print(*(f"  {name}" for name in sorted(outcome.failed)), sep="\n")
    worse, better = without.passed - limited.passed, limited.passed - without.passed
    print(f"\npass without the limit alone: {len(worse)}", *sorted(worse), sep="\n  ")
    print(f"\npass with the limit alone: {len(better)}", *sorted(better), sep="\n  ")
    return int(bool(worse))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, help="a checkout of the project")
    parser.add_argument("--limit", default="50MB", help="the memory limit of the second run")
    own, _, for_pytest = " ".join(sys.argv[1:]).partition(" -- ")
    options = parser.parse_args(own.split())
    outcomes = [run(options.folder, for_pytest.split(), limit) for limit in (None, options.limit)]
    return compare(*outcomes)


if __name__ == "__main__":
    sys.exit(main())
