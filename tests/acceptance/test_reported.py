"""The computations of shared/CASES.md at the reported size: the process holds to the limit."""

from __future__ import annotations

import pytest

from tests.acceptance.cases import CASES, Case
from tests.acceptance.test_cases import identify
from tests.processes import run

OVERHEAD = 1.25
"""Of the limit: beside buffers there are XLA's compiler and threads, and libraries' workspaces."""

RUNS = [case for case in CASES if case.blocked is None]


@pytest.mark.slow
@pytest.mark.parametrize("case", RUNS, ids=identify)
def test_resident_memory_stays_near_the_limit(case: Case) -> None:
    if case.too_long:
        pytest.skip(f"row {case.number} is not run at the reported size: {case.too_long}")
    found = run("-m", "tests.acceptance.reported", str(CASES.index(case)))
    assert found["finite"]
    assert found["resident"] <= OVERHEAD * found["limit"]
