"""The order in which XLA sorts numbers, as integers and as f32.

Floats are in IEEE 754's total order: NaN is above all else, or below if its sign bit is set, and
-0 is below 0. It is the order of the bits as integers, but that negative floats run backwards.
XLA's CPU back end sorts bf16 as f32 and takes all NaNs of one sign to be equal; here they are not.
"""

from __future__ import annotations

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.types import BITS
from tf_memsafe.rewrite.maths import filled, float_bits, integer_range

SIGN_32 = 1 << 31


def has_order(dtype: str) -> bool:
    """Whether `order_key` knows the dtype: real floats and integers of 8 to 64 bits."""
    return bool(float_bits(dtype) or integer_range(dtype))


def order_key(x: Node) -> Node:
    """Integers in the order of `x`: equal where its bits are, else the larger for the larger."""
    if not float_bits(x.dtype):
        return x
    return _mirrored(_bitcast(x, f"i{BITS[x.dtype]}"))


def from_order_key(key: Node, dtype: str) -> Node:
    """What has this `order_key`, to the last bit."""
    return _bitcast(_mirrored(key), dtype) if float_bits(dtype) else key


def fits_f32(dtype: str) -> bool:
    """Whether f32 has room for the order of a dtype: it has at most 32 bits."""
    return has_order(dtype) and BITS[dtype] <= BITS["f32"]


def as_f32(x: Node) -> Node:
    """Floats in the order of `x`, one for each value of its dtype, of which `fits_f32` is true.

    They are only to be compared and moved: 32 bits of any pattern make NaN and subnormal numbers.
    """
    key = order_key(x)
    if BITS[x.dtype] < BITS["f32"]:
        return build.convert(key, "f32")
    if x.dtype == "ui32":
        key = _bitcast(_xor(key, SIGN_32), "i32")
    return from_order_key(key, "f32")


def from_f32(y: Node, dtype: str) -> Node:
    """The values of which `as_f32` made `y`, to the last bit."""
    if BITS[dtype] < BITS["f32"]:
        key_dtype = f"i{BITS[dtype]}" if float_bits(dtype) else dtype
        return from_order_key(build.convert(y, key_dtype), dtype)
    key = order_key(y)
    if dtype == "ui32":
        return _xor(_bitcast(key, "ui32"), SIGN_32)
    return from_order_key(key, dtype)


def _mirrored(bits: Node) -> Node:
    """Signed integers with the negative ones in reverse order, and back again."""
    limits = integer_range(bits.dtype)
    assert limits is not None
    negative = build.compare(bits, filled(0, bits, bits.shape), "LT")
    return build.emit("select", (negative, _xor(bits, limits[1]), bits))


def _xor(x: Node, value: int) -> Node:
    return build.emit("xor", (x, filled(value, x, x.shape)))


def _bitcast(x: Node, dtype: str) -> Node:
    if x.dtype == dtype:
        return x
    return build.emit("bitcast_convert", (x,), type=x.tensor.with_dtype(dtype))
