"""Tensor types, spelled as StableHLO spells them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

BITS = {
    "i1": 8,  # XLA stores a predicate in a whole byte
    "i2": 8,
    "i4": 8,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
    "ui2": 8,
    "ui4": 8,
    "ui8": 8,
    "ui16": 16,
    "ui32": 32,
    "ui64": 64,
    "f8E4M3FN": 8,
    "f8E5M2": 8,
    "f8E4M3B11FNUZ": 8,
    "f8E4M3FNUZ": 8,
    "f8E5M2FNUZ": 8,
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "f64": 64,
    "complex<f32>": 64,
    "complex<f64>": 128,
}
"""Bits one element takes in a buffer, by dtype name."""


@dataclass(frozen=True)
class TensorType:
    """A dtype and a static shape; `dynamic` marks the axes whose size is only a bound.

    Example: `str(TensorType("f32", (4, 3)))` is `"tensor<4x3xf32>"`.
    """

    dtype: str
    shape: tuple[int, ...] = ()
    dynamic: tuple[bool, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_dynamic(self) -> bool:
        return any(self.dynamic)

    @cached_property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @cached_property
    def bytes(self) -> int:
        """Bytes of the buffer that holds the tensor."""
        return self.size * BITS[self.dtype] // 8

    def with_shape(self, shape: Sequence[int]) -> TensorType:
        return TensorType(self.dtype, tuple(shape))

    def with_axis(self, axis: int, size: int) -> TensorType:
        """The same type with `size` elements along `axis`."""
        return self.with_shape((*self.shape[:axis], size, *self.shape[axis + 1 :]))

    def with_dtype(self, dtype: str) -> TensorType:
        return TensorType(dtype, self.shape, self.dynamic)

    def __str__(self) -> str:
        dynamic = self.dynamic or (False,) * self.rank
        sizes = ["?" if d else str(s) for s, d in zip(self.shape, dynamic, strict=True)]
        bounds = [str(s) if d else "?" for s, d in zip(self.shape, dynamic, strict=True)]
        suffix = f", #stablehlo.bounds<{', '.join(bounds)}>" if self.is_dynamic else ""
        return f"tensor<{'x'.join([*sizes, self.dtype])}{suffix}>"


@dataclass(frozen=True)
class TupleType:
    """The types of an op that has several results, or none."""

    elements: tuple[TensorType, ...]

    @cached_property
    def bytes(self) -> int:
        return sum(element.bytes for element in self.elements)

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.elements))})"


Type = TensorType | TupleType
