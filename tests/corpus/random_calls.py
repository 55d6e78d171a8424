"""tf.random.stateless_*: numbers that follow from a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tests.corpus.calls import Call, call, real, value

SEED = value([3, 7], "int32")
ALGORITHMS = ("philox", "threefry", "auto_select")


def _seeded(name: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Call:
    return call(name, lambda seed: function([3, 5], seed, *arguments, **options), SEED)


def _all_bits(shape: list[int], seed: tf.Tensor) -> tf.Tensor:
    return tf.random.stateless_uniform(shape, seed, None, None, tf.int32)


CALLS = [
    *(
        _seeded(f"stateless_uniform {name}", tf.random.stateless_uniform, alg=name)
        for name in ALGORITHMS
    ),
    *(
        _seeded(f"stateless_normal {dtype.name}", tf.random.stateless_normal, dtype=dtype)
        for dtype in (tf.float32, tf.float64, tf.float16, tf.bfloat16)
    ),
    *(
        _seeded(
            f"stateless_uniform {dtype.name}",
            tf.random.stateless_uniform,
            minval=-3,
            maxval=9,
            dtype=dtype,
        )
        for dtype in (tf.int32, tf.int64, tf.float32, tf.float64)
    ),
    _seeded("stateless_uniform, all bits", _all_bits),
    _seeded("stateless_truncated_normal", tf.random.stateless_truncated_normal),
    _seeded("stateless_normal, moved", tf.random.stateless_normal, 1.0, 2.0),
    call(
        "stateless_categorical",
        lambda logits, seed: tf.random.stateless_categorical(logits, 4, seed),
        real(3, 5),
        SEED,
    ),
    call(
        "stateless_parameterized_truncated_normal",
        lambda seed: tf.random.stateless_parameterized_truncated_normal(
            [4], seed, 0.0, 1.0, -1.0, 2.0
        ),
        SEED,
    ),
    call("stateless_gamma", lambda seed: tf.random.stateless_gamma([4], seed, 2.0), SEED),
    call("stateless_poisson", lambda seed: tf.random.stateless_poisson([4], seed, 2.0), SEED),
    call(
        "stateless_binomial",
        lambda seed: tf.random.stateless_binomial([4], seed, 9.0, 0.5),
        SEED,
    ),
    call("split seeds", lambda seed: tf.random.split(seed, 3), SEED),
    call("fold_in", lambda seed: tf.random.fold_in(seed, 5), SEED),
    call("stateless_shuffle", tf.random.experimental.stateless_shuffle, real(9), SEED),
    call(
        "two draws",
        lambda seed: [
            tf.random.stateless_normal([4], seed),
            tf.random.stateless_normal([4], seed + 1),
        ],
        SEED,
    ),
]
