"""The command line: `python -m tf_memsafe`, or `tf-memsafe`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tf_memsafe.command import doctor, run, saved_model
from tf_memsafe.command.arguments import BadArgumentError, parse

COMMANDS = {"run": run.run, "explain": saved_model.explain, "doctor": doctor.doctor}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code: 2 for arguments that are wrong.

    arguments: those of the process if they are left out.
    """
    options = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        return COMMANDS[options.command](options)
    except BadArgumentError as error:
        print(f"tf-memsafe {options.command}: {error}", file=sys.stderr)
        return 2
