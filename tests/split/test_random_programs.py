"""Random programs, cut wherever that is possible: same numbers as uncut."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from tests.generated.drawing import programs
from tests.generated.properties import check_cut, examples

THRESHOLDS = st.sampled_from([200, 600, 2000, 8000])
"""Bytes above which no value exists whole."""


@pytest.mark.parametrize("shard", range(4))
def test_a_cut_program_computes_the_same(shard: int) -> None:
    examples(shard, 25, check_cut, programs(5, 15), THRESHOLDS, st.integers(1, 7))


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(100, 144))
def test_a_long_cut_program_computes_the_same(shard: int) -> None:
    examples(shard, 25, check_cut, programs(5, 60), THRESHOLDS, st.integers(1, 11))
