"""How many steps of a loop one chunk covers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cache
from math import ceil, isqrt

from tf_memsafe.hlo.node import Node
from tf_memsafe.split.arrange import LoopPlan
from tf_memsafe.split.cost import combining, computing, merging, read_whole, whole_bytes
from tf_memsafe.split.liveness import is_stored
from tf_memsafe.split.target import Device

SMALLER = 2 / 3
"""Each chunk size that is tried to the next larger one: at most a third of the room is unused."""

UNEVEN = 3 / 4
"""How far below a wanted chunk a divisor of the steps is preferred: what a loop leaves over is a
second copy of its body, which takes longer to compile and, once a call, to run."""

HARDLY = 3
"""How many bytes of a large chunk there are to be for each unit of time that any chunk takes."""

PER_WHOLE = 4
"""How many bytes of a chunk there are to be for each byte that every chunk reads: a library packs
the matrix that it multiplies a chunk with anew each time."""

LIGHT = 8
"""How many times what it takes to add a chunk's sums the rest of the chunk is to take: where it is
less, chunks are twice as large (attention's gradient: benchmarks/split_cost.py)."""

UsedBy = Mapping[Node, Sequence[Node]]


def chunk_sizes(
    loops: Sequence[LoopPlan], used_by: UsedBy, device: Device
) -> list[tuple[int, ...]]:
    """The chunk sizes that are worth trying, one for each loop: the fastest first, one step last.

    No loop's chunk is larger than in the sizes before, so each takes as long as those or longer.
    They do not depend on a limit.
    """
    wanted = [float(preferred_chunk(loop, used_by, device)) for loop in loops]
    sizes = [even_chunks(loops, wanted)]
    while max(sizes[-1], default=1) > 1:
        wanted = [max(1, chunk * SMALLER) for chunk in wanted]
        smaller = tuple(map(min, sizes[-1], even_chunks(loops, wanted)))
        if smaller != sizes[-1]:
            sizes.append(smaller)
    return sizes


def preferred_chunk(loop: LoopPlan, used_by: UsedBy, device: Device) -> int:
    """Steps whose largest stored tensor takes about the device's `chunk_bytes`, or what is better.

    Where each chunk takes much time whatever its size, chunks so large that this hardly counts: for
    the ten nearest of 200,000 points to 2,000 queries, chunks of 16 MB would read all points, or
    merge the ten nearest so far, 100 times.
    """
    stored = [node for node in loop.streamed if is_stored(node, used_by[node])]
    sizes = [node.type.bytes for node in stored or loop.streamed]
    largest, total = max(sizes, default=0), sum(sizes)
    units = read_whole(loop, device) + merging(loop)
    # What is too large for the cache moves through main memory, at about a unit of time a byte.
    if units * largest > device.chunk_bytes * total:
        wanted = HARDLY * units
    else:
        multiplied = any(user.name == "dot_general" for node in stored for user in used_by[node])
        wanted = _cached_bytes(loop, multiplied, largest, device)
    return max(1, min(_longest_segment(loop), wanted * loop.steps // max(1, largest)))


def _cached_bytes(loop: LoopPlan, multiplied: bool, largest: int, device: Device) -> int:
    """Bytes of a chunk that stays in the cache.

    Down to `least_chunk_bytes` where it is multiplied, and little is read beside it. Twice as much
    where adding to what the loop sums takes long beside the rest.

    largest: bytes of the loop's largest tensor, of all steps.
    """
    wanted = device.chunk_bytes
    if multiplied:
        wanted = min(wanted, max(device.least_chunk_bytes, PER_WHOLE * whole_bytes(loop)))
    adding = LIGHT * combining(loop) * largest > wanted * computing(loop, device)
    return 2 * wanted if adding else wanted


def even_chunks(loops: Sequence[LoopPlan], wanted: Sequence[float]) -> tuple[int, ...]:
    """For each loop, an even chunk near the wanted one."""
    pairs = zip(loops, wanted, strict=True)
    return tuple(even_chunk(_longest_segment(loop), int(chunk)) for loop, chunk in pairs)


def even_chunk(steps: int, chunk: int) -> int:
    """A divisor of `steps` not far below `chunk`, else the chunk that leaves the best remainder.

    Example: `even_chunk(20_000, 27)` is 25; `even_chunk(1009, 100)` is 92, for eleven chunks.
    """
    divisors = _divisors(steps)
    divisor = divisors[bisect_right(divisors, chunk) - 1]
    if divisor >= UNEVEN * chunk:
        return divisor
    balanced = ceil(steps / ceil(steps / chunk))
    return chunk if balanced == chunk else even_chunk(steps, balanced)


@cache
def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def _longest_segment(loop: LoopPlan) -> int:
    return max(segment.steps for segment in loop.segments)
