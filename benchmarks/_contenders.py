"""The contenders that several benchmarks have."""

from __future__ import annotations

from typing import Any

from frame.case import Contender

OURS = "tf_memsafe"


def ours(limit: int, module: str = "naive", **options: Any) -> Contender:
    """Naive code under a limit in bytes."""
    return Contender(OURS, module, options, peer=False, limit=limit)


def plain(speed: float | None = 1.0, module: str = "naive", **options: Any) -> Contender:
    """The same code without a limit, where what it makes whole fits."""
    return Contender("plain tf.function, jit", module, options, peer=False, whole=True, speed=speed)


def floor(
    name: str, work: str, module: str = "naive", limit: int | None = None, **options: Any
) -> Contender:
    """A part of the work, by itself: what is faster than that is out of reach."""
    return Contender(name, module, options, work, peer=False, limit=limit, floor=True)


def jax_chunked(speed: float | None = 1.0) -> Contender:
    return Contender("JAX, chunked by hand", "jax_chunked", speed=speed)
