"""XLA's products of a few matrices, in the order that NumPy finds to take the fewest operations."""

from __future__ import annotations

from itertools import pairwise
from string import ascii_letters

import numpy as np
import tensorflow as tf

from contenders.naive import Arrays, Call, start, tensors

__all__ = ["ordered_chain", "start"]

ANY_SIZE = 2**62
"""Elements up to which a product of some of the matrices is considered."""


def ordered_chain(data: Arrays) -> Call:
    names = sorted(data)
    axes = ",".join(map("".join, pairwise(ascii_letters[: len(names) + 1])))
    formula = f"{axes}->{axes[0]}{axes[-1]}"
    arrays = [data[name] for name in names]
    pairs = np.einsum_path(formula, *arrays, optimize=("optimal", ANY_SIZE))[0][1:]

    @tf.function(jit_compile=True)
    def product(*matrices: tf.Tensor) -> tf.Tensor:
        parts = list(enumerate(matrices))
        for pair in pairs:
            taken = sorted((parts.pop(i) for i in sorted(pair, reverse=True)), key=lambda p: p[0])
            (place, left), (_, right) = taken
            parts.append((place, left @ right))
        return parts[0][1]

    matrices = tensors(data, *names)
    return lambda: product(*matrices)
