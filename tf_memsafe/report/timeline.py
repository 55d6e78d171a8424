"""The memory in use over a program's schedule, by XLA's own simulation of the heap."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from tf_memsafe.buffers import BufferAssignment, HeapEvent


@dataclass(frozen=True)
class Timeline:
    """Bytes in use after each step of a schedule that takes or frees a buffer.

    base: what is there throughout: arguments, results, constants, and what the simulation leaves
    out. The body of a loop is simulated once.
    """

    base: int
    events: tuple[HeapEvent, ...]

    @property
    def in_use(self) -> list[int]:
        """Before the first step, and after each."""
        return [*accumulate((event.bytes for event in self.events), initial=self.base)]

    @property
    def peak_step(self) -> int:
        """The first step after which most is in use."""
        in_use = self.in_use
        return in_use.index(max(in_use))

    @property
    def at_peak(self) -> tuple[HeapEvent, ...]:
        """The buffers that are in use at the peak, beside those that always are."""
        held: list[HeapEvent] = []
        for event in self.events[: self.peak_step]:
            if event.bytes > 0:
                held.append(event)
            else:
                held.remove(HeapEvent(event.instruction, -event.bytes))
        return tuple(held)


def timeline_of(buffers: BufferAssignment) -> Timeline | None:
    """The timeline whose peak is the assignment's; None if nobody has compiled it for one."""
    if not buffers.has_timeline:
        return None
    most = max(accumulate((event.bytes for event in buffers.timeline), initial=0))
    return Timeline(buffers.peak - most, buffers.timeline)
