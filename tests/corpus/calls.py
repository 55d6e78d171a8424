"""What an entry of the corpus is, and how its arguments are made."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import tensorflow as tf

Array = np.ndarray
Make = Callable[[np.random.Generator], Array]


class Call(NamedTuple):
    """A function of tensors and the makers of its arguments."""

    name: str
    function: Callable[..., Any]
    makers: tuple[Make, ...]
    unsupported: str = ""
    """What the reader says that it cannot read, where that is so."""

    def arguments(self) -> list[Array]:
        """The same values in every run."""
        generator = np.random.default_rng(zlib.crc32(self.name.encode()))
        return [make(generator) for make in self.makers]


def call(name: str, function: Callable[..., Any], *makers: Make, **fields: Any) -> Call:
    return Call(name, function, makers, **fields)


def words(text: str) -> list[str]:
    return text.split()


def real(*shape: int, dtype: Any = np.float32, low: float = -2, high: float = 2) -> Make:
    return lambda generator: generator.uniform(low, high, shape).astype(dtype)


def double(*shape: int, low: float = -2, high: float = 2) -> Make:
    return real(*shape, dtype=np.float64, low=low, high=high)


def half(*shape: int) -> Make:
    return real(*shape, dtype=np.float16)


def brain(*shape: int) -> Make:
    return real(*shape, dtype=ml_dtypes.bfloat16)


def integer(*shape: int, dtype: Any = np.int32, low: int = 0, high: int = 8) -> Make:
    """Integers from `low` up to, but not including, `high`."""
    return lambda generator: generator.integers(low, high, shape).astype(dtype)


def boolean(*shape: int) -> Make:
    return lambda generator: generator.integers(0, 2, shape).astype(np.bool_)


def complex_(*shape: int, dtype: Any = np.complex64) -> Make:
    def make(generator: np.random.Generator) -> Array:
        return (generator.normal(size=shape) + 1j * generator.normal(size=shape)).astype(dtype)

    return make


def value(array: Any, dtype: Any = None) -> Make:
    """An argument that is given, not random."""
    return lambda _: np.asarray(array, dtype)


def positive_definite(*shape: int, dtype: Any = np.float32) -> Make:
    """Well-conditioned matrices."""

    def make(generator: np.random.Generator) -> Array:
        factor = generator.normal(size=shape)
        size = shape[-1]
        return (factor @ np.swapaxes(factor, -1, -2) + size * np.eye(size)).astype(dtype)

    return make


def gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """The gradients, to all arguments that have one, of the sum of all results."""

    def gradients(*arguments: tf.Tensor) -> list[tf.Tensor]:
        watched = [a for a in arguments if a.dtype.is_floating or a.dtype.is_complex]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            results = [r for r in tf.nest.flatten(function(*arguments)) if _has_gradient(r)]
            total = tf.add_n([tf.reduce_sum(tf.math.abs(result)) for result in results])
        found = tape.gradient(total, watched)
        return [tf.convert_to_tensor(value) for value in found if value is not None]

    return gradients


def _has_gradient(result: tf.Tensor) -> bool:
    return bool(result.dtype.is_floating or result.dtype.is_complex)


def gradients_of(calls: Iterable[Call], names: str) -> list[Call]:
    """A gradient entry for each entry named; the names are separated by semicolons."""
    by_name = {entry.name: entry for entry in calls}
    chosen = [by_name[name.strip()] for name in names.split(";")]
    return [
        entry._replace(name=f"gradient {entry.name}", function=gradient(entry.function))
        for entry in chosen
    ]
