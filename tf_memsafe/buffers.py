"""The buffers that XLA reserves for a call of a compiled function: what the limit counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Allocation:
    """One buffer that XLA reserves for a call: its bytes and what they hold."""

    bytes: int
    kind: str  # "argument", "result", "constant" or "temporary"
    parameter: int | None = None


@dataclass(frozen=True)
class HeapEvent:
    """A step of XLA's memory timeline: `instruction` takes (or frees, if negative) bytes."""

    instruction: str
    bytes: int


@dataclass(frozen=True)
class BufferAssignment:
    """What a compiled function needs at once, as XLA itself lays it out."""

    allocations: tuple[Allocation, ...]
    timeline: tuple[HeapEvent, ...] = ()
    exact: bool = True

    @classmethod
    def estimated(cls, peak: int) -> BufferAssignment:
        """A stand-in for where nothing is compiled, because a bound settles the question."""
        return cls((Allocation(peak, "estimate"),), exact=False)

    @property
    def peak(self) -> int:
        """Bytes of arguments, results, constants and temporaries together."""
        return sum(allocation.bytes for allocation in self.allocations)

    def bytes_of(self, kind: str) -> int:
        return sum(a.bytes for a in self.allocations if a.kind == kind)
