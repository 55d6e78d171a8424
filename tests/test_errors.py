"""The error and the warning are what callers already catch."""

from __future__ import annotations

import pickle
import warnings

import pytest
import tensorflow as tf

from tf_memsafe.errors import MemoryLimitError, MemorySafetyWarning


def test_the_error_is_tensorflows_own_kind() -> None:
    with pytest.raises(tf.errors.ResourceExhaustedError, match="too large") as caught:
        raise MemoryLimitError("too large", memory_limit=10, smallest_peak=20)
    assert caught.value.error_code == tf.errors.RESOURCE_EXHAUSTED
    assert str(caught.value) == caught.value.message == "too large"


def test_the_error_without_figures() -> None:
    error = MemoryLimitError("too large")
    assert (error.memory_limit, error.smallest_peak) == (None, None)


def test_the_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(MemoryLimitError("too large", 10, 20)))
    assert type(error) is MemoryLimitError
    assert (error.message, error.memory_limit, error.smallest_peak) == ("too large", 10, 20)


def test_the_warning_is_shown_by_default() -> None:
    with pytest.warns(UserWarning, match="as written"):
        warnings.warn("runs as written", MemorySafetyWarning, stacklevel=1)
