"""The memory limit in force, and how a user may write one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from numbers import Integral
from typing import NamedTuple

from tf_memsafe.machine import free_memory

ACCEPTED = (
    "a positive int of bytes (8_000_000_000), a size with a unit of B, kB, MB, GB, TB, KiB, MiB, "
    'GiB or TiB ("800MB", "1.5GiB"), "auto" for what is free, or None for no limit'
)
"""The accepted forms of a limit, for messages."""

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([a-z]+)")

_UNITS = {"b": 1}
_UNITS |= {f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", 1)}
_UNITS |= {f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", 1)}


SCOPES = ("all", "jit")
"""What a limit holds for: every tf.function, or those with `jit_compile=True` alone."""


class Limit(NamedTuple):
    """Bytes that a function may need at once, None for any; `scope` is one of SCOPES."""

    bytes: int | None
    scope: str = SCOPES[0]


NO_LIMIT = Limit(None)


class _Process:
    limit: Limit = NO_LIMIT


_override: ContextVar[Limit | None] = ContextVar("tf_memsafe_memory_limit", default=None)


def checked_limit(limit: object, scope: object = SCOPES[0]) -> Limit:
    """A limit as `parse_limit` takes it, for one of SCOPES.

    Raises:
        ValueError: for what is not a limit, or not a scope; it shows the accepted ones.
    """
    if scope not in SCOPES:
        raise ValueError(f"{scope!r} is not a scope; give one of {', '.join(map(repr, SCOPES))}")
    return Limit(parse_limit(limit), str(scope))


def parse_limit(value: object) -> int | None:
    """The bytes that a limit stands for, rounded down; None if it stands for no limit.

    `value` is an int of bytes, a size such as "800MB" (8e8) or "1.5GiB" (1.5 * 2**30) in which
    case and blanks do not matter, "auto" (what the device, or the machine and its control group,
    has free now), or None.

    Raises:
        ValueError: for anything else, and for less than one byte; it shows the accepted forms.

    Example: `parse_limit("8 GB")` is 8_000_000_000.
    """
    if value is None:
        return None
    limit = _bytes(value)
    if limit is None or limit < 1:
        raise ValueError(f"{value!r} is not a memory limit; give {ACCEPTED}")
    return limit


def format_bytes(count: int) -> str:
    """A number of bytes, to be read by people: in decimal units, exact below 1000.

    Example: `format_bytes(1_073_741_824)` is "1.07 GB" and `format_bytes(512)` is "512 bytes".
    """
    if count < 1000:
        return f"{count} bytes"
    sizes = [(Decimal(count) / _UNITS[unit.lower()], unit) for unit in ("kB", "MB", "GB", "TB")]
    size, unit = next((pair for pair in sizes if round(pair[0], 2) < 1000), sizes[-1])
    return f"{size:.2f} {unit}"


def in_force() -> Limit:
    """The limit that holds here: the innermost `override`, else the process's own."""
    limit = _override.get()
    return _Process.limit if limit is None else limit


def current_limit() -> int | None:
    """The bytes of the limit in force here; None if there is none."""
    return in_force().bytes


def process_limit() -> int | None:
    """The process's own limit, in bytes."""
    return _Process.limit.bytes


def set_global(limit: Limit) -> None:
    """Sets the limit of the whole process; NO_LIMIT removes it."""
    _Process.limit = limit


@contextmanager
def override(limit: Limit) -> Iterator[None]:
    """Puts a limit, or NO_LIMIT, in force inside the block, in this context only.

    Other threads and other asyncio tasks keep theirs. Blocks nest; the innermost holds.

    Example: `with override(Limit(8_000_000_000)): ...`
    """
    token = _override.set(limit)
    try:
        yield
    finally:
        _override.reset(token)


def _bytes(value: object) -> int | None:
    """The bytes that `value` stands for, None if it is not in an accepted form."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    if not isinstance(value, str):
        return None
    text = value.strip().lower()
    if text == "auto":
        return max(1, free_memory())  # a full machine is a tight limit, not a wrong one
    size = _SIZE.fullmatch(text)
    if size is None or size[2] not in _UNITS:
        return None
    return int(Decimal(size[1]) * _UNITS[size[2]])
