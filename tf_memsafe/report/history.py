"""The reports on what was rewritten in this process."""

from __future__ import annotations

import logging
from collections import deque

from tf_memsafe.limits import format_bytes
from tf_memsafe.proof import Proof
from tf_memsafe.report.content import Report
from tf_memsafe.report.make import measured, report_on
from tf_memsafe.xla import ConcreteFunction

MOST_KEPT = 1000
"""How many reports are kept: the last ones."""

_log = logging.getLogger("tf_memsafe")
_log.addHandler(logging.NullHandler())
_reports: deque[Report] = deque(maxlen=MOST_KEPT)


def record(proof: Proof, function: ConcreteFunction) -> None:
    """Notes what came of a function that is called, if it is rewritten; and logs that."""
    if proof.executable is None or not proof.fits:
        return
    # The report outlives the function, and must not keep the tensors that it captures.
    _reports.append(report_on(proof, function, keep=False))
    if _log.isEnabledFor(logging.INFO):
        report = _completed(len(_reports) - 1)
        _log.info("%s", headline(report))
        _log.debug("%s", report)


def last_reports() -> list[Report]:
    """The reports on the functions that calls rewrote in this process, the latest last.

    One for each function, signature and limit, and one for each gradient; the last 1,000. Listings
    of a function that no longer exists have no source lines. What it needs as it is written, and
    what it holds at its peak, is not always known before: XLA then compiles it here, once.

    Example: `for report in tf_memsafe.last_reports(): print(report)`
    """
    return [_completed(index) for index in range(len(_reports))]


def _completed(index: int) -> Report:
    """A report whose `peak_before` is no estimate, as it may be until somebody looks."""
    _reports[index] = measured(_reports[index])
    return _reports[index]


def headline(report: Report) -> str:
    """The report in one line."""
    before, after = map(format_bytes, (report.peak_before, report.peak_after))
    limit = format_bytes(report.memory_limit or 0)
    done = [
        f"{len(found)} {noun}{'s' if len(found) > 1 else ''}"
        for found, noun in ((report.loops, "loop"), (report.rewrites, "rewrite"))
        if found
    ]
    return f"{report.name}: {before}, now {after} of {limit}; {', '.join(done)}"
