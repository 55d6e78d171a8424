"""Looks for a program that is within a limit, in at most three compiles.

Estimates rank plans; a compile says what a program needs. Two programs are made for the limit: the
cheapest plan, and one that cuts more. The third is the floor: of all plans, the one with the
smallest estimate.

The smallest limit that works is then known, without a search for it. Near the floor, that is
compiled first. For every limit below what it needs, the other two are made for one byte less than
that: all those limits have the same three programs. The smallest of them is within a limit of its
own size, and none is within one byte less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

from tf_memsafe.executable import Executable
from tf_memsafe.hlo.node import Graph
from tf_memsafe.rewrite.driver import Rewritten
from tf_memsafe.split.cheapest import best_cut, checkpointed
from tf_memsafe.split.liveness import estimate_peak
from tf_memsafe.split.plan import SplitGraph, uncut
from tf_memsafe.split.target import CPU, Device, Target
from tf_memsafe.xla import XlaCompileError

Finish = Callable[[Graph], Rewritten]
"""Rewrites a planned graph for the last time."""

Compile = Callable[[Graph], Executable]
"""Writes and compiles a graph that is finished."""

MOST_COMPILES = 3
"""How many programs are compiled for a limit, beside the function as the user wrote it."""

FAR = 4
"""How many times its estimate a limit has to be for the floor to be within it, uncompiled.

No program of tests/acceptance was seen to need as much.
"""

SMALL = 1_000_000
"""Bytes that XLA may add for many small buffers: where these are few beside arguments and results,
of which estimates are exact, it is enough that there is room for FAR times the temporaries.
"""

MARGIN = 0.97
"""How much of the room that is left a program is planned for after its estimate was too low."""


@dataclass(frozen=True)
class Trial:
    """A program that was compiled: its plan, and what finishing the planned graph came to."""

    split: SplitGraph
    finished: Rewritten
    executable: Executable

    @property
    def peak(self) -> int:
        """Bytes that it needs, as XLA counts them."""
        return self.executable.peak

    def is_within(self, limit: int) -> bool:
        return self.peak <= limit


class Search:
    """The programs for one graph.

    smaller: whether the graph needs less than what the user wrote, so that it may fit uncut.
    device: what will run them. failures: why XLA could not compile some of them.
    """

    def __init__(
        self,
        graph: Graph,
        smaller: bool,
        finish: Finish,
        compiled: Compile,
        device: Device = CPU,
    ) -> None:
        self.graph = graph
        self._smaller = smaller
        self._finish = finish
        self._compiled = compiled
        self._best_cut = cache(lambda limit, fusing: best_cut(graph, Target(limit, fusing, device)))
        self._trials: dict[Graph, Trial | None] = {}
        self.failures: list[str] = []

    def run(self, limit: int) -> Trial | None:
        """The first program within `limit` bytes, else the smallest; None if there is none."""
        cheapest, goal = self._cheapest(limit), limit
        if self._is_near(limit, cheapest):
            floor = self._try(self.floor)
            if floor is not None and not floor.is_within(limit):
                goal = floor.peak - 1
                cheapest = self._cheapest(goal)
        first = self._try(cheapest)
        if first is not None and first.is_within(limit):
            return first
        second = self._try(self._cut_further(goal, first))
        if second is not None and second.is_within(limit):
            return second
        self._try(self.floor)
        return min(filter(None, self._trials.values()), key=lambda t: t.peak, default=None)

    @cached_property
    def floor(self) -> SplitGraph | None:
        """The plan with the smallest estimate, were nothing fused; None if nothing can be cut."""
        plans = [self._best_cut(0, False)]
        plans += [uncut(self.graph, fusing=False)] if self._smaller else []
        return min(filter(None, plans), key=lambda split: split.estimate, default=None)

    def _is_near(self, limit: int, cheapest: SplitGraph | None) -> bool:
        """Whether the floor may need more than the limit, for all that is known."""
        if cheapest is not None:
            estimate = estimate_peak(cheapest.graph, fusing=False)
            if _most(cheapest.graph, estimate) <= limit:
                return False  # so is what the floor needs at most, which takes longer to find
        cut = self._best_cut(limit // FAR, False)
        if cut is not None and cut.estimate <= limit // FAR:
            return False  # and the floor needs no more than that
        return self.floor is not None and _most(self.floor.graph, self.floor.estimate) > limit

    def _cheapest(self, goal: int) -> SplitGraph | None:
        """The plan that computes least of those whose estimate is within `goal` bytes."""
        if self._smaller and self._uncut.estimate <= goal:
            return self._uncut
        kept = checkpointed(self.graph, Target(goal))
        # The estimate of what loops need is often too high, and cutting more can cost memory.
        if kept.graph != self.graph and kept.estimate <= 2 * goal:
            return kept
        return self._best_cut(goal, self._fuses(goal))

    def _cut_further(self, goal: int, first: Trial | None) -> SplitGraph | None:
        """A plan for the same goal that makes up for what the first's estimate was wrong by."""
        fusing = self._fuses(goal)
        plan = self._best_cut(goal, fusing)
        if plan is None or first is None or plan.graph != first.split.graph:
            return plan
        if fusing and first.peak > 2 * plan.estimate:
            return self._best_cut(goal, False)
        return self._best_cut(_lowered(goal, first), fusing)

    def _fuses(self, goal: int) -> bool:
        """Whether XLA is taken to fuse what it mostly does: not if the graph would fit then."""
        return self._uncut.estimate > goal

    @cached_property
    def _uncut(self) -> SplitGraph:
        return uncut(self.graph)

    def _try(self, split: SplitGraph | None) -> Trial | None:
        """Compiles a program, if it has not been yet; None if there is none, or XLA cannot."""
        if split is None:
            return None
        if split.graph not in self._trials:
            self._trials[split.graph] = self._compile(split)
        return self._trials[split.graph]

    def _compile(self, split: SplitGraph) -> Trial | None:
        finished = self._finish(split.graph)
        try:
            return Trial(split, finished, self._compiled(finished.graph))
        except XlaCompileError as error:
            self.failures.append(str(error))
            return None


def _most(graph: Graph, estimate: int) -> int:
    """What a program needs at most, for all that is known: an estimate may be too low."""
    given = _given(graph)
    return min(FAR * estimate, given + FAR * max(0, estimate - given) + SMALL)


def _given(graph: Graph) -> int:
    """Bytes of arguments and results, of which estimates are exact."""
    types = [*graph.types, *(output.tensor for output in graph.outputs)]
    return sum(type_.bytes for type_ in types)


def _lowered(goal: int, trial: Trial) -> int:
    """What to plan for next: less by as much as the estimate of the temporaries was too low."""
    given, estimate = _given(trial.split.graph), trial.split.estimate
    wanted = min(goal, trial.peak - 1)
    share = MARGIN * max(0, wanted - given) / max(1, trial.peak - given)
    return min(wanted, given + int(max(0, estimate - given) * share))
