"""What a program is planned for: a limit, and the kind of device that will run it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """What tells which of two plans is faster on a kind of device.

    The unit of time is one flop of a fused loop, or one byte to or from main memory: on current
    processors these take about as long as each other.

    chunk_bytes: of the largest tensor of a chunk, at most. Larger ones do not stay in the device's
        cache until they are used.
    least_chunk_bytes: the same at least, where memory allows. Smaller ones do not keep the device
        busy.
    cache_bytes: a value that is not larger is taken to stay in the cache until it is used.
    product_speedup: how many flops of a library call for matrix products take one unit.
    launch: units that it takes to start one kernel. Every value that a chunk stores is one.
    """

    chunk_bytes: int
    least_chunk_bytes: int
    cache_bytes: int
    product_speedup: int
    launch: int


CPU = Device(
    chunk_bytes=16_000_000,
    least_chunk_bytes=4_000_000,
    cache_bytes=8_000_000,
    product_speedup=8,
    launch=50_000,
)
"""A few cores: chunks of 4 to 16 MB run as fast as one pass or faster (DESIGN section 2), attention
in the largest of them (benchmarks/split_cost.py), kernels of few dimensions and their gradients in
the smallest (benchmarks/kernel_gradient.py). A flop of a fused loop is the unit; `launch`, for
XLA's thread pool to start and join a kernel, is a guess."""

GPU = Device(
    chunk_bytes=64_000_000,
    least_chunk_bytes=64_000_000,
    cache_bytes=32_000_000,
    product_speedup=16,
    launch=5_000_000,
)
"""A data centre's GPU, by its data sheet and not by measurement: tens of MB of cache, and a kernel
takes as long to start as megabytes take to move, so chunks have to be larger than on a CPU."""


@dataclass(frozen=True)
class Target:
    """What a plan is made for.

    limit: bytes that the estimate of everything, arguments and results too, is to be within.
    fusing: whether XLA is taken to fuse what it mostly does (`liveness.estimate_peak`).

    Example: `best_cut(graph, Target(2 * 10**9, device=GPU))`.
    """

    limit: int
    fusing: bool = True
    device: Device = CPU
