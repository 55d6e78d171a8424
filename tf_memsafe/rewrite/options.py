"""Which optimizers are switched on: for the whole process, and for one block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from tf_memsafe.rewrite.pipeline import NAMES

_enabled = dict.fromkeys(NAMES, True)

_NONE: Mapping[str, bool] = {}
_override: ContextVar[Mapping[str, bool]] = ContextVar(
    "tf_memsafe_optimizer_options", default=_NONE
)


def set_optimizer_options(options: Mapping[str, bool]) -> None:
    """Switches optimizers on or off by name, for all calls from now on.

    `get_optimizer_options` has the names. Those that are not named here stay as they are; all are
    on to begin with. A function that has its program already gets another one at its next call.

    Raises:
        ValueError: for a name that is no optimizer's, or a value that is not a bool; it lists the
            names, and nothing is changed.

    Example: `tf_memsafe.set_optimizer_options({"distance": False})`
    """
    _enabled.update(checked_options(options))


def get_optimizer_options() -> dict[str, bool]:
    """Whether each optimizer is on here, in the order in which they are applied."""
    return {**_enabled, **_override.get()}


def options_key() -> tuple[bool, ...]:
    """The values of `get_optimizer_options`: at each call of a function, so it has to be quick."""
    options = _override.get()
    return tuple((get_optimizer_options() if options else _enabled).values())


def checked_options(options: object) -> dict[str, bool]:
    """A copy of options as the user gave them; none where they are None.

    Raises:
        ValueError: as `set_optimizer_options` does.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise ValueError(f"{options!r} does not map names to True or False; {_names()}")
    for name, value in options.items():
        if name not in _enabled:
            raise ValueError(f"{name!r} is not an optimizer; {_names()}")
        if not isinstance(value, bool):
            raise ValueError(f"{name!r} has to be True or False, not {value!r}")
    return dict(options)


@contextmanager
def override_options(options: Mapping[str, bool]) -> Iterator[None]:
    """Puts options before the process's inside the block, in this context only."""
    token = _override.set(options)
    try:
        yield
    finally:
        _override.reset(token)


def _names() -> str:
    return f"there are {', '.join(_enabled)}"
