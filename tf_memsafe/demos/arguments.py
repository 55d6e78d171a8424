"""The arguments that all demos have, and how each is run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tf_memsafe
from tf_memsafe.demos.console import say


def parser(
    name: str, description: str | None, memory_limit: str = "1GB"
) -> argparse.ArgumentParser:
    """A parser for the demo of this name; it knows --memory-limit, --seed, --figure
    and --results.

    Example: `parser("sinkhorn", __doc__, "100MB").parse_args(["--seed", "1"])`
    """
    made = argparse.ArgumentParser(
        f"python -m tf_memsafe.demos.{name}",
        description=description,
        formatter_class=_Formatter,
    )
    made.add_argument("--memory-limit", default=memory_limit, help="such as 1GB, 512MiB or auto")
    made.add_argument("--seed", type=int, default=0, help="of all random choices")
    made.add_argument(
        "--figure", type=Path, default=Path("figures", f"{name}.png"), help="where to save it"
    )
    made.add_argument("--results", type=Path, help="a JSON file to write what was found to")
    return made


class _Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of a module's docstring, and shows the defaults."""


def positive(text: str) -> int:
    """The type of an argument that is a whole number from 1.

    Raises:
        ValueError: for anything else; argparse makes a message of it.
    """
    number = int(text)
    if number < 1:
        raise ValueError(f"{number} is not positive")
    return number


def run(
    demo: Callable[[argparse.Namespace], dict[str, Any]],
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
) -> int:
    """Runs a demo under the memory limit that its arguments give; the exit status of the process.

    demo: gives what it found, ready for JSON; "right" says whether its own checks passed.

    0 if the demo found its own answers right, 1 if it did not or if they cannot be had within the
    limit. Exits with 2 if the arguments are wrong.
    """
    options = parser.parse_args(arguments)
    try:
        tf_memsafe.set_memory_limit(options.memory_limit)
    except ValueError as error:
        parser.error(str(error))
    try:
        results = demo(options)
    except tf_memsafe.MemoryLimitError as error:
        print(error.message, file=sys.stderr)
        return 1
    if options.results:
        results = {"memory_limit": tf_memsafe.get_memory_limit(), **results}
        options.results.parent.mkdir(parents=True, exist_ok=True)
        options.results.write_text(json.dumps(results, indent=1) + "\n")
        say(f"Results: {options.results}")
    say("Every check passed." if results["right"] else "A CHECK FAILED.")
    return 0 if results["right"] else 1
