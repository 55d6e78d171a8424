"""How the steps of a group of loops are divided, so that less has to be kept of them.

Griewank and Walther, "Algorithm 799: revolve" (2000), divide better where the number of checkpoints
is given; equal parts are simpler, and small loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from math import ceil

from tf_memsafe.split.sweeps import Group

MOST_LEVELS = 8
"""How often segments are divided: a step is computed again once for each."""

MOST_COPIES = 60
"""How many copies of loops' bodies a program may have: each takes XLA about as long to compile."""

Parts = tuple[int, ...]
"""How many steps the segments have, then the segments that they are divided into, and so on."""


def divisions(group: Group) -> Iterator[Parts]:
    """Divisions of the steps that keep less and less, those with the fewest flops first."""
    yield (1,)
    least = group.trips * min(group.entry_bytes, group.state_bytes)
    levels = range(1, MOST_LEVELS + 1) if group.state_bytes else ()
    for level in levels:
        found = [even_parts(group, level), (*even_parts(group, level - 1, states=True), 1)]
        for parts in found:
            fewer = (kept := kept_bytes(group, parts)) < least and parts[0] < group.trips
            if fewer and copies(group, parts) <= MOST_COPIES:
                least = kept
                yield parts


def even_parts(group: Group, levels: int, states: bool = False) -> Parts:
    """The division that keeps least, roughly: as many bytes on every level.

    states: whether the innermost segments keep the states of their steps, not what is stacked up.
    """
    last = group.state_bytes if states else group.entry_bytes
    each = (group.state_bytes**levels * last * group.trips) ** (1 / (levels + 1))
    parts = [max(2, round(each / last))]
    for _ in range(levels - 1):
        parts.append(parts[-1] * max(2, round(each / group.state_bytes)))
    return tuple(parts[:levels][::-1])


def kept_bytes(group: Group, parts: Parts) -> int:
    """What is kept at once: the states at segments' ends, and the stacks of a last segment."""
    states = sum(ceil(whole / part) for whole, part in pairwise((group.trips, *parts)))
    stacked = parts[-1] if parts[-1] > 1 else 0
    return states * group.state_bytes + stacked * group.entry_bytes


def steps_run(group: Group, parts: Parts) -> int:
    """How many steps all sweeps take together, those that are run again as well."""
    sizes = (group.trips, *parts, 1)

    @cache
    def steps(number: int, level: int, size: int) -> int:
        """Of one sweep through a segment, and of those that it needs there."""
        if level + 2 == len(sizes):
            return size
        part = sizes[level + 1]
        wholes, rest = divmod(size, part)
        runs = [*group.sources(number), number]
        return sum(
            count * steps(run, level + 1, each)
            for count, each in ((wholes, part), (1, rest))
            for run in runs
        )

    return sum(steps(number, 0, group.trips) for number, _ in enumerate(group.sweeps))


def copies(group: Group, parts: Parts) -> int:
    """How many copies of the sweeps' bodies it takes to run these segments again."""

    @cache
    def inside(number: int, level: int) -> int:
        if level == len(parts):
            return 1
        return sum(inside(run, level + 1) for run in (*group.sources(number), number))

    return sum(inside(number, 0) for number, _ in enumerate(group.sweeps))
