"""Random programs held to random limits: the proved peak is within them, the numbers are the same.

Examples are spread over many tests so that they can run side by side; each test draws its own.
"""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from tests.generated.drawing import programs
from tests.generated.past_failures import PAST_FAILURES, PastFailure
from tests.generated.properties import check_limit, check_smallest_limit, examples

SHARES = st.one_of(st.just(0.0), st.floats(0, 1))
"""Where a limit lies between the least that works and what the program takes as written."""


@pytest.mark.parametrize("shard", range(4))
def test_a_program_keeps_to_a_limit(shard: int) -> None:
    examples(shard, 10, check_limit, programs(5, 15), SHARES)


@pytest.mark.parametrize("shard", range(1))
def test_a_gradient_keeps_to_a_limit(shard: int) -> None:
    examples(shard, 10, check_limit, programs(5, 10, differentiated=True), SHARES)


@pytest.mark.parametrize("shard", range(1))
def test_the_smallest_limit_is_true(shard: int) -> None:
    examples(shard, 10, check_smallest_limit, programs(5, 15))


@pytest.mark.parametrize("failure", PAST_FAILURES, ids=lambda failure: failure.what)
def test_what_failed_once_keeps_to_a_limit(failure: PastFailure) -> None:
    check_limit(failure.program, failure.share)


# --- 2,000 programs, for make test-all ---


@pytest.mark.slow
@pytest.mark.apart
@pytest.mark.parametrize("shard", range(100, 180))
def test_a_long_program_keeps_to_a_limit(shard: int) -> None:
    examples(shard, 20, check_limit, programs(5, 60), SHARES)


@pytest.mark.slow
@pytest.mark.apart
@pytest.mark.parametrize("shard", range(100, 120))
def test_a_long_gradient_keeps_to_a_limit(shard: int) -> None:
    examples(shard, 20, check_limit, programs(5, 30, differentiated=True), SHARES)


@pytest.mark.slow
@pytest.mark.apart
@pytest.mark.parametrize("shard", range(100, 110))
def test_the_smallest_limit_of_a_long_program_is_true(shard: int) -> None:
    examples(shard, 20, check_smallest_limit, programs(5, 40))
