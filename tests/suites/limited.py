"""A pytest plugin that sets a memory limit, for tests that know nothing of tf_memsafe.

Example: `TF_MEMSAFE_SUITE_LIMIT=50MB python -m pytest -p tests.suites.limited tests/gpflow`
"""

from __future__ import annotations

import os

import pytest

import tf_memsafe


def pytest_configure(config: pytest.Config) -> None:
    tf_memsafe.set_memory_limit(os.environ["TF_MEMSAFE_SUITE_LIMIT"])
    # A suite may turn warnings into errors: what runs as it is written is no failure of it.
    config.addinivalue_line("filterwarnings", "ignore::tf_memsafe.MemorySafetyWarning")
