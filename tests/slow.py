"""Marks some of a test's cases as slow: `make test-all` alone runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

Value = TypeVar("Value")


def slow_where(is_slow: Callable[[Value], bool], values: Iterable[Value]) -> list[Any]:
    """The values, for `pytest.mark.parametrize`."""
    return [pytest.param(v, marks=[pytest.mark.slow] if is_slow(v) else []) for v in values]
