"""Limits as users write them, and which limit holds where."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_memsafe import limits
from tf_memsafe.limits import (
    NO_LIMIT,
    Limit,
    checked_limit,
    current_limit,
    format_bytes,
    in_force,
    override,
    parse_limit,
    set_global,
)

UNITS = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}


@pytest.fixture(autouse=True)
def process_limit() -> Iterator[None]:
    """Puts the process's own limit back after each test."""
    before = in_force()
    yield
    set_global(before)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (1, 1),
        (8_000_000_000, 8_000_000_000),
        (np.int64(5), 5),
        ("800MB", 800_000_000),
        ("1.5GiB", 1_610_612_736),
        ("  1.5  gib ", 1_610_612_736),
        (".5kB", 500),
        ("7 b", 7),
        ("1.9B", 1),
        ("0.3GB", 300_000_000),
        ("16TB", 16 * 10**12),
    ],
)
def test_accepted_forms(value: object, expected: int | None) -> None:
    assert parse_limit(value) == expected


REFUSED = [
    *(True, False, np.True_),
    *(0, -1, "0GB", "-1GB", "0.4B"),
    *(1.5, 8e9, float("nan"), float("inf"), "nan", "inf", "nanGB", "infGB"),
    *("", " ", "GB", "8", "8G", "8Gi", "8PB", "8 GB/s", "1,5GB", "1.GB", "1e9B", "8\u0664GB"),
    *("none", "automatic", b"8GB", [8], (8,), {}, ..., 8 + 0j, Decimal(8)),
]


@pytest.mark.parametrize("value", REFUSED, ids=repr)
def test_refused_forms(value: object) -> None:
    with pytest.raises(ValueError, match=r"is not a memory limit.*800MB.*1\.5GiB.*auto.*None"):
        parse_limit(value)


@given(
    number=st.decimals(min_value=Decimal("0.001"), max_value=10**6, places=3),
    unit=st.sampled_from(sorted(UNITS)),
    blank=st.sampled_from(["", " ", "\t"]),
    change_case=st.sampled_from([str, str.lower, str.upper]),
)
def test_a_size_is_its_number_times_its_unit(
    number: Decimal, unit: str, blank: str, change_case: type[str]
) -> None:
    exact = Fraction(number) * UNITS[unit]
    text = f"{number:f}{blank}{change_case(unit)}"
    if exact < 1:
        with pytest.raises(ValueError, match="is not a memory limit"):
            parse_limit(text)
    else:
        assert parse_limit(text) == exact.numerator // exact.denominator


def test_auto_is_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "free_memory", lambda: 12_345)
    assert parse_limit(" AUTO ") == 12_345
    monkeypatch.setattr(limits, "free_memory", lambda: -4096)
    assert parse_limit("auto") == 1


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.00 kB"),
        (1_073_741_824, "1.07 GB"),
        (999_994, "999.99 kB"),
        (999_996, "1.00 MB"),
        (26_942_080_000, "26.94 GB"),
        (5 * 10**15, "5000.00 TB"),
    ],
)
def test_format_bytes(count: int, text: str) -> None:
    assert format_bytes(count) == text


@given(st.integers(min_value=1000, max_value=10**14))
def test_formatted_bytes_are_a_size_within_half_a_percent(count: int) -> None:
    parsed = parse_limit(format_bytes(count))
    assert parsed is not None
    assert abs(parsed - count) <= count / 200


def test_there_is_no_limit_until_one_is_set() -> None:
    set_global(NO_LIMIT)
    assert current_limit() is None
    set_global(Limit(10))
    assert current_limit() == 10


def test_overrides_nest() -> None:
    set_global(Limit(10))
    with override(Limit(5)):
        assert current_limit() == 5
        with override(NO_LIMIT):
            assert current_limit() is None
        assert current_limit() == 5
    assert current_limit() == 10


def test_an_override_ends_with_an_exception() -> None:
    set_global(Limit(10))
    with pytest.raises(KeyError), override(Limit(5)):
        raise KeyError
    assert current_limit() == 10


def test_an_override_is_local_and_the_process_limit_is_not() -> None:
    seen: list[int | None] = []
    set_global(Limit(10))
    with override(Limit(5)):
        thread = threading.Thread(target=lambda: seen.append(current_limit()))
        thread.start()
        thread.join()
    assert seen == [10]


# --- scopes ---


def test_a_limit_is_for_all_functions_unless_it_is_said() -> None:
    assert checked_limit("1kB") == Limit(1000, "all")
    assert checked_limit("1kB", "jit") == Limit(1000, "jit")
    with override(Limit(5, "jit")):
        assert in_force().scope == "jit"


@pytest.mark.parametrize("scope", ["", "ALL", None, 1, "xla"])
def test_other_scopes_are_refused(scope: object) -> None:
    with pytest.raises(ValueError, match="is not a scope; give one of 'all', 'jit'"):
        checked_limit("1kB", scope)
