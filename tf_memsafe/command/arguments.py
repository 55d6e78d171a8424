"""What the command line accepts."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import NoReturn

from tf_memsafe.limits import parse_limit

VARIABLE = "TF_MEMSAFE_LIMIT"
"""The environment variable that stands in for --memory-limit."""


class BadArgumentError(Exception):
    """An argument is wrong in a way that only the command itself can tell; the message says how."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Says in one line what is wrong, and exits with 2."""
        self.exit(2, f"{self.prog}: {message}\n")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options; `command` is the name of the command. Exits with 2 for what is wrong."""
    parser = _Parser(
        prog="tf-memsafe",
        description="Holds TensorFlow functions to a memory limit.",
        epilog=f"The environment variable {VARIABLE} stands in for --memory-limit.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_run(commands.add_parser("run", help="run a script under a limit", allow_abbrev=False))
    explain = "say what a limit does to a SavedModel"
    _add_explain(commands.add_parser("explain", help=explain, allow_abbrev=False))
    commands.add_parser("doctor", help="check this installation and machine", allow_abbrev=False)
    options = parser.parse_args(arguments)
    if options.command == "run" and options.memory_limit is None:
        parser.error(f"run needs a limit: --memory-limit 8GB, or {VARIABLE}=8GB in the environment")
    return options


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tf-memsafe run [options] (SCRIPT | -m MODULE) [ARGUMENT ...]"
    _add_limit(parser)
    parser.add_argument(
        "--report", metavar="DIR", help="write a page for each function that was rewritten"
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="raise an error where a function cannot be held to the limit, instead of a warning",
    )
    parser.add_argument("-m", dest="is_module", action="store_true", help="SCRIPT names a module")
    parser.add_argument("script", metavar="SCRIPT", help="the script to run, or its module's name")
    rest = parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT")
    rest.required = False  # which errors would say otherwise


def _add_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("saved_model", metavar="SAVED_MODEL", help="the folder of a SavedModel")
    _add_limit(parser)
    parser.add_argument(
        "--signature",
        default="serving_default",
        help="which signature; serving_default if left out",
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        type=_shape,
        metavar="NAME=SIZES",
        help="the shape of an input, such as x=1000,784; needed where the signature leaves it open",
    )
    parser.add_argument("--report", metavar="FILE", help="write the report as a page, too")


def _add_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--memory-limit",
        type=_limit,
        default=os.environ.get(VARIABLE),  # argparse reads a default as if it were given
        metavar="SIZE",
        help='such as 8GB or 1.5GiB, or "auto" for what is free',
    )


def _limit(text: str) -> int | None:
    try:
        return parse_limit(int(text) if text.isdecimal() else text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, sizes = text.partition("=")
    try:
        return name, tuple(int(size) for size in sizes.split(",") if size)
    except ValueError as error:
        message = f"{text!r} is not a shape; write it as x=1000,784"
        raise argparse.ArgumentTypeError(message) from error
