"""Draws the progress line on a terminal, as a process of its own that imports nothing else.

It reads what to show from standard input, a line each: a function's name, what is being done with
it (nothing: it is done), and since when, with tabs between. It ends with its input.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

AFTER = 2.0
"""Seconds of work that pass before anything is shown."""

CLEAR = "\r\x1b[K"
"""What empties the line on a terminal."""

EVERY = 0.5
"""Seconds between two looks at the clock."""


def text_of(name: str, stage: str, seconds: float) -> str:
    """`tf_memsafe: knn: compiling ... 12 s`; without the seconds before it is time to show them."""
    return f"tf_memsafe: {name}: {stage} ...{f' {seconds:.0f} s' if seconds >= AFTER else ''}"


def main() -> None:
    """Shows what standard input says until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # which is meant for the work, not for its line
    source, told, is_shown = sys.stdin.fileno(), "", False
    while True:
        if select.select([source], [], [], EVERY if told else None)[0]:
            lines = os.read(source, 2**16).decode()
            if not lines:
                break
            told = lines.splitlines()[-1]
        name, stage, since = told.split("\t")
        passed = time.time() - float(since)
        if stage and passed >= AFTER:
            show(CLEAR + text_of(name, stage, passed))
            is_shown = True
        elif not stage:
            show(CLEAR if is_shown else "")
            told, is_shown = "", False
    show(CLEAR if is_shown else "")


def show(text: str) -> None:
    """Writes to standard error at once."""
    sys.stderr.write(text)
    sys.stderr.flush()


if __name__ == "__main__":
    main()
