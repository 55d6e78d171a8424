"""A case: work on given data, and the contenders that do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from .agreement import relative_difference

Arrays = dict[str, npt.NDArray[Any]]
Agreement = Callable[[Sequence[npt.NDArray[Any]], Sequence[npt.NDArray[Any]]], float]


class Size(Enum):
    """How large a benchmark is: as the project's targets say, five minutes in all, or a test."""

    FULL = "full"
    QUICK = "quick"
    TINY = "tiny"


@dataclass(frozen=True)
class Contender:
    """One way to do the work: the function `work` in contenders/<module>.py, or that of the case.

    peer: runs in the peers' environment, without TensorFlow. limit: tf_memsafe's, in bytes, None to
    run without it. eager: compiles little or nothing in its first call, which counts if it is long.
    whole: makes the values whole that a limit keeps from existing, so that it does
    not start where these do not fit. speed, memory: how many times our seconds and our resident
    memory it must take for our target to be met. floor: no way to do the work but a part of it that
    ours cannot do without, so that its results are its own. note: what a reader has to know of it.
    """

    name: str
    module: str
    options: Mapping[str, Any] = field(default_factory=dict)
    work: str = ""
    peer: bool = True
    limit: int | None = None
    eager: bool = False
    whole: bool = False
    speed: float | None = None
    memory: float | None = None
    floor: bool = False
    note: str = ""


@dataclass(frozen=True)
class Work:
    """The least a case has to do, whoever does it: what the machine's speed of light is held to."""

    flops: float = 0
    exponentials: float = 0
    bytes: float = 0
    dtype: str = "float32"


@dataclass(frozen=True)
class Case:
    """A row of a table: `work` on the arrays that `data` makes, by each contender in turns.

    contenders: ours is the first, with which the others' results are compared. agreement: how far
    two results are apart, at most `tolerance`. timeout: seconds that a call may take. rounds: turns
    of each contender, at most. series: the curve of which the case is a point. alone: whether each
    contender has all its turns before the next one's first, because the memory of all together is
    more than there is.
    """

    name: str
    work: str
    contenders: Sequence[Contender]
    data: Callable[[], Arrays]
    options: Mapping[str, Any] = field(default_factory=dict)
    agreement: Agreement = relative_difference
    tolerance: float = 1e-4
    timeout: float = 120
    rounds: int = 5
    least: Work = Work()
    series: str = ""
    alone: bool = False


def normal(*shape: int, dtype: str = "float32", seed: int = 0) -> npt.NDArray[Any]:
    """Standard normal numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)
