"""Settings of every test: quiet logs, and the same random examples in each run."""

from __future__ import annotations

import os

from hypothesis import settings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before the first import of TensorFlow

settings.register_profile("deterministic", derandomize=True, deadline=None)
settings.load_profile("deterministic")
