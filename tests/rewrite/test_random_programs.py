"""Random programs after every optimizer: same numbers, same types."""

from __future__ import annotations

import pytest

from tests.generated.drawing import programs
from tests.generated.properties import check_rewritten, examples
from tf_memsafe.rewrite import distance_size, top_k


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random programs are too small for some optimizers to pay."""
    monkeypatch.setattr(distance_size, "SMALLEST_DIMENSION", 2)
    monkeypatch.setattr(top_k, "FEWEST_ELEMENTS", 0)


@pytest.mark.parametrize("shard", range(4))
def test_a_rewritten_program_computes_the_same(shard: int) -> None:
    examples(shard, 25, check_rewritten, programs(5, 15))


@pytest.mark.slow
@pytest.mark.apart
@pytest.mark.parametrize("shard", range(100, 148))
def test_a_long_rewritten_program_computes_the_same(shard: int) -> None:
    examples(shard, 25, check_rewritten, programs(5, 60))
