"""Random programs, cut wherever that is possible: same numbers as uncut."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from tests.generated.drawing import programs
from tests.generated.program import Argument, Instruction, RandomProgram
from tests.generated.properties import check_cut, examples

ONE_UPDATE = RandomProgram(
    (Argument((64,), "float32"), Argument((64,), "int32")),
    (Instruction("update at", 0, 1, 2, "float32"), Instruction("spread", 2, 2, 1, "float32")),
)


@pytest.mark.parametrize("chunk", [1, 7, 16, 64])
def test_one_update_is_written_in_its_own_chunk_only(chunk: int) -> None:
    # XLA takes a slice of a slice for one slice, though the inner position may be outside.
    check_cut(ONE_UPDATE, 200, chunk)


THRESHOLDS = st.sampled_from([200, 600, 2000, 8000])
"""Bytes above which no value exists whole."""


@pytest.mark.parametrize("shard", range(2))
def test_a_cut_program_computes_the_same(shard: int) -> None:
    examples(shard, 25, check_cut, programs(5, 15), THRESHOLDS, st.integers(1, 7))


@pytest.mark.slow
@pytest.mark.apart
@pytest.mark.parametrize("shard", range(100, 144))
def test_a_long_cut_program_computes_the_same(shard: int) -> None:
    examples(shard, 25, check_cut, programs(5, 60), THRESHOLDS, st.integers(1, 11))
