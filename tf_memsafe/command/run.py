"""`run`: an unmodified script, as Python would run it, with a limit."""

from __future__ import annotations

import argparse
import os
import re
import runpy
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from tf_memsafe.command.arguments import BadArgumentError
from tf_memsafe.errors import MemorySafetyWarning
from tf_memsafe.hook import set_memory_limit
from tf_memsafe.limits import format_bytes
from tf_memsafe.report import Report, headline, last_reports

OWN_FILES = {__file__, runpy.__file__, "<frozen runpy>"}
"""What stands between Python and the script; tracebacks leave it out."""


def run(options: argparse.Namespace) -> int:
    """Runs the script and returns its exit code, or raises SystemExit as the script did.

    Raises:
        BadArgumentError: where there is no such script or module, or no folder for the reports.
    """
    _check(options)
    if options.strict:
        warnings.filterwarnings("error", category=MemorySafetyWarning)
    set_memory_limit(options.memory_limit)
    sys.argv = [options.script, *options.arguments]
    try:
        return _run(options)
    finally:
        sys.stdout.flush()
        _summarise(last_reports(), options)


def _check(options: argparse.Namespace) -> None:
    # As Python does: a script finds what is beside it, and a module what is where it is called.
    script = Path(options.script)
    sys.path[0] = os.getcwd() if options.is_module else str(script.resolve().parent)
    if options.is_module and not _module_exists(options.script):
        raise BadArgumentError(f"there is no module {options.script}")
    if not options.is_module and not script.exists():
        raise BadArgumentError(f"there is no script {options.script}")
    if options.report is not None:
        try:
            Path(options.report).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadArgumentError(f"no folder {options.report} for reports: {error}") from error


def _module_exists(name: str) -> bool:
    parent = name.rpartition(".")[0]
    return (not parent or _module_exists(parent)) and find_spec(name) is not None


def _run(options: argparse.Namespace) -> int:
    try:
        if options.is_module:
            runpy.run_module(options.script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(options.script, run_name="__main__")
    except Exception as error:
        # As Python itself would: by whatever hook the script has set, and with exit code 1.
        inside = _inside(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(inside), inside)
        return 1
    return 0


def _inside(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback from the script's own frame on."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename in OWN_FILES:
        traceback = traceback.tb_next
    return traceback


def _summarise(reports: list[Report], options: argparse.Namespace) -> None:
    """Says on standard error what was rewritten, and writes the reports."""
    limit = format_bytes(options.memory_limit)
    count = f"{len(reports)} function{'s' if len(reports) != 1 else ''}"
    print(f"tf_memsafe: {count} rewritten for a limit of {limit}", file=sys.stderr)
    files = report_files(reports, Path(options.report)) if options.report else [None] * len(reports)
    for report, file in zip(reports, files, strict=True):
        print(f"  {headline(report)}", file=sys.stderr)
        if file is not None:
            print(f"    {report.save(file)}", file=sys.stderr)


def report_files(reports: list[Report], folder: Path) -> Iterator[Path]:
    """A file of its own for each report, named after its function."""
    names: set[str] = set()
    for report in reports:
        stem = name = re.sub(r"[^\w.-]+", "_", report.name) or "function"
        number = 1
        while name in names:
            number += 1
            name = f"{stem}-{number}"
        names.add(name)
        yield folder / f"{name}.html"
