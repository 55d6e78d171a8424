"""The order of sorting as integers and as f32: XLA's own order, and back without a bit lost."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hlo.running import run
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.types import BITS, TensorType
from tf_memsafe.rewrite.total_order import (
    as_f32,
    fits_f32,
    from_f32,
    from_order_key,
    has_order,
    order_key,
)

FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = tuple(f"{sign}i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
NARROW = tuple(dtype for dtype in (*FLOATS, *INTEGERS) if BITS[dtype] <= 32)


def patterns(dtype: str) -> np.ndarray:
    """Every value of 8 and 16 bits; of wider dtypes, random bits and all values near 0 and inf."""
    bits = BITS[dtype]
    unsigned = np.dtype(f"u{bits // 8}")
    if bits <= 16:
        return np.arange(2**bits, dtype=unsigned).view(build.NUMPY_DTYPES[dtype])
    random = np.random.default_rng(0).integers(0, 2**bits, 5000, dtype=unsigned)
    infinity = np.array(np.inf, f"f{bits // 8}").view(unsigned)
    near = [start + np.arange(-50, 50).astype(unsigned) for start in (0, infinity)]
    sign = np.array(1 << (bits - 1), unsigned)
    return np.concatenate([random, *near, *(part | sign for part in near)]).view(
        build.NUMPY_DTYPES[dtype]
    )


def one_nan(values: np.ndarray) -> np.ndarray:
    """bf16 with one NaN of each sign: XLA sorts it as f32, and there makes one of all NaNs."""
    bits = values.view(np.uint16) & 0x7FFF
    return values[(bits <= 0x7F80) | (bits == 0x7FC0)]


def computed(values: np.ndarray, dtype: str, *outputs: str) -> list[np.ndarray]:
    (x,) = build.region_parameters([TensorType(dtype, values.shape)])
    makers = {
        "key": lambda: order_key(x),
        "key and back": lambda: from_order_key(order_key(x), dtype),
        "f32": lambda: as_f32(x),
        "f32 and back": lambda: from_f32(as_f32(x), dtype),
        "order": lambda: down(x),
        "order of f32": lambda: down(as_f32(x)),
    }
    return run(Graph((x,), tuple(makers[output]() for output in outputs)), [values])


def down(x: Node) -> Node:
    """The positions of all elements, as XLA sorts them, the largest first."""
    return build.results(build.emit("top_k", (x,), {"k": x.shape[-1]}))[1]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_keys_are_in_the_order_in_which_xla_sorts(dtype: str) -> None:
    assert has_order(dtype)
    values = patterns(dtype)
    if dtype == "bf16":
        values = one_nan(values)
    keys, back, order = computed(values, dtype, "key", "key and back", "order")
    assert back.tobytes() == values.tobytes()
    descending = np.argsort(~keys if dtype.startswith("ui") else -1 - keys, kind="stable")
    np.testing.assert_array_equal(descending, order)


@pytest.mark.parametrize("dtype", NARROW)
def test_f32_is_in_the_same_order(dtype: str) -> None:
    assert fits_f32(dtype)
    values = patterns(dtype)
    keys, back, order = computed(values, dtype, "key", "f32 and back", "order of f32")
    assert back.tobytes() == values.tobytes()
    descending = np.argsort(~keys if dtype.startswith("ui") else -1 - keys, kind="stable")
    np.testing.assert_array_equal(descending, order)


def test_f32_is_itself() -> None:
    values = patterns("f32")
    (same,) = computed(values, "f32", "f32")
    assert same.tobytes() == values.tobytes()


def test_what_has_no_order_or_is_too_wide() -> None:
    assert not any(map(has_order, ("i1", "i4", "complex<f32>")))
    assert not any(map(fits_f32, ("f64", "i64", "ui64", "complex<f32>", "i1")))
