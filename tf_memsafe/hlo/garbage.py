"""Python's cycle collector, kept out of the way while graphs are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Makes nodes without looking for cycles among them: they are immutable, so they have none.

    The collector would go through all nodes again and again as their number grows.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
