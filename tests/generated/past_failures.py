"""Programs that came out wrong once, each with what it was."""

from __future__ import annotations

from typing import NamedTuple

from tests.generated.program import RandomProgram


class PastFailure(NamedTuple):
    """A program, the limit under which it failed, and what it was.

    share: where the limit lies between the least that works and what the program takes.
    """

    what: str
    share: float
    program: RandomProgram


PAST_FAILURES: tuple[PastFailure, ...] = ()
