"""Which optimizers are switched on, for the whole process."""

from __future__ import annotations

from collections.abc import Mapping

from tf_memsafe.rewrite.pipeline import OPTIMIZERS

_enabled = {optimizer.name: True for optimizer in OPTIMIZERS}


def set_optimizer_options(options: Mapping[str, bool]) -> None:
    """Switches optimizers on or off by name, for what is compiled from now on.

    Those that are not named stay as they are; all are on to begin with.

    Raises:
        ValueError: for a name that is no optimizer's, or a value that is not a bool; it lists the
            names, and nothing is changed.

    Example: `tf_memsafe.set_optimizer_options({"distance": False})`
    """
    for name, value in options.items():
        if name not in _enabled:
            raise ValueError(f"{name!r} is not an optimizer; there are {', '.join(_enabled)}")
        if not isinstance(value, bool):
            raise ValueError(f"{name!r} has to be True or False, not {value!r}")
    _enabled.update(options)


def get_optimizer_options() -> dict[str, bool]:
    """Whether each optimizer is switched on, in the order in which they are applied."""
    return dict(_enabled)
