"""tf.math and tf.bitwise, element by element, in every dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.corpus.calls import (
    Call,
    boolean,
    brain,
    call,
    complex_,
    double,
    gradients_of,
    half,
    integer,
    real,
    value,
    words,
)

UNARY = words(
    "abs acos asin asinh atan atanh bessel_i0e bessel_i1e ceil cos cosh digamma erf erfc erfinv"
    " exp expm1 floor is_finite is_inf is_nan lgamma log log1p log_sigmoid ndtri negative"
    " reciprocal reciprocal_no_nan rint round rsqrt sigmoid sign sin sinh softplus softsign sqrt"
    " square tan tanh"
)
COMPLEX_UNARY = words(
    "abs acosh angle atanh conj cos cosh exp imag log log1p negative reciprocal real rsqrt"
    " sigmoid sign sin sinh sqrt square tan tanh"
)
INTEGER_UNARY = words("abs negative sign square")
BINARY = words(
    "add atan2 divide divide_no_nan equal floordiv floormod greater less_equal maximum minimum"
    " multiply multiply_no_nan nextafter not_equal pow squared_difference subtract truediv xdivy"
    " xlog1py xlogy"
)
INTEGER_BINARY = words(
    "add equal floordiv floormod greater_equal less maximum minimum multiply subtract truediv"
)
BITWISE = words("bitwise_and bitwise_or bitwise_xor left_shift right_shift")
NOT_COMPILED = words("bessel_j0 dawsn expint fresnel_cos spence")


def _math(name: str) -> Callable[..., Any]:
    return getattr(tf.math, name)


def _unary() -> list[Call]:
    unit, one_up = {"low": 0.1, "high": 0.9}, {"low": 1.1, "high": 3}
    return [
        *(call(f"{name} f32", _math(name), real(3, 5, **unit)) for name in UNARY),
        *(call(f"{name} f64", _math(name), double(3, 5, **unit)) for name in UNARY[::3]),
        *(call(f"{name} f16", _math(name), half(3, 5)) for name in UNARY[1::6]),
        *(call(f"{name} bf16", _math(name), brain(3, 5)) for name in UNARY[2::6]),
        *(call(f"{name} c64", _math(name), complex_(3, 5)) for name in COMPLEX_UNARY),
        *(
            call(f"{name} c128", _math(name), complex_(4, dtype=np.complex128))
            for name in ("exp", "tanh")
        ),
        *(call(f"{name} i32", _math(name), integer(3, 5, low=-8)) for name in INTEGER_UNARY),
        *(call(f"{name} f32", getattr(tf.math.special, name), real(4)) for name in NOT_COMPILED),
        call("acosh f32", tf.math.acosh, real(4, **one_up)),
        call(
            "ceil of nan and inf", tf.math.ceil, value([np.nan, np.inf, -np.inf, 0.5], np.float32)
        ),
        call("is_nan of nan", tf.math.is_nan, value([np.nan, np.inf, 0], np.float32)),
        call("logical_not", tf.math.logical_not, boolean(7)),
        call("polygamma", tf.math.polygamma, value([1.0, 2.0, 3.0]), double(3, **one_up)),
        call("zeta", tf.math.zeta, double(3, **one_up), double(3, **one_up)),
    ]


def _binary() -> list[Call]:
    positive = {"low": 0.1, "high": 2}
    return [
        *(call(f"{name} f32", _math(name), real(3, 5, **positive), real(3, 5)) for name in BINARY),
        *(
            call(f"{name} f64, repeated", _math(name), double(3, 1), double(4))
            for name in ("add", "pow", "maximum")
        ),
        *(
            call(f"{name} i32", _math(name), integer(9, low=-8), integer(9, low=1))
            for name in INTEGER_BINARY
        ),
        *(
            call(
                f"{name} i8",
                _math(name),
                integer(9, dtype=np.int8),
                integer(9, dtype=np.int8, low=1),
            )
            for name in ("add", "floordiv", "multiply")
        ),
        *(
            call(
                f"{name} u8",
                _math(name),
                integer(9, dtype=np.uint8, high=256),
                integer(9, dtype=np.uint8, low=1),
            )
            for name in ("add", "maximum", "less")
        ),
        *(
            call(
                f"{name} i64",
                _math(name),
                integer(9, dtype=np.int64),
                integer(9, dtype=np.int64, low=1),
            )
            for name in ("add", "floormod", "pow")
        ),
        *(call(name, getattr(tf.bitwise, name), integer(9), integer(9)) for name in BITWISE),
        *(
            call(name, _math(name), boolean(7), boolean(7))
            for name in ("logical_and", "logical_or", "logical_xor")
        ),
        call("invert", tf.bitwise.invert, integer(9, dtype=np.uint16)),
        call(
            "right_shift u32",
            tf.bitwise.right_shift,
            integer(9, dtype=np.uint32),
            integer(9, dtype=np.uint32),
        ),
        call("population_count", lambda x: tf.raw_ops.PopulationCount(x=x), integer(9)),
        call("igamma", tf.math.igamma, real(4, **positive), real(4, **positive)),
        call("igammac", tf.math.igammac, double(4, **positive), double(4, **positive)),
        call("betainc", tf.math.betainc, *[real(4, low=0.2, high=0.8)] * 3),
        call("lbeta", tf.math.lbeta, real(4, 3, **positive)),
        call("complex", tf.dtypes.complex, real(4), real(4)),
        call("multiply c64", tf.multiply, complex_(4), complex_(4)),
        call("divide c128", tf.divide, *[complex_(4, dtype=np.complex128)] * 2),
        call("pow c64", tf.pow, complex_(4), complex_(4)),
        call("add_n", lambda *x: tf.math.add_n(x), real(4), real(4), real(4)),
        call(
            "approximate equal",
            lambda x, y: tf.raw_ops.ApproximateEqual(x=x, y=y, tolerance=0.5),
            real(9),
            real(9),
        ),
        call("clip_by_value", lambda x: tf.clip_by_value(x, -0.5, 0.5), real(9)),
        call("clip_by_norm", lambda x: tf.clip_by_norm(x, 1.0), real(9)),
        call("cast to i32", lambda x: tf.cast(x, tf.int32), real(9)),
        call("cast to bool", lambda x: tf.cast(x, tf.bool), integer(9, high=2)),
        call(
            "cast to bf16 and back", lambda x: tf.cast(tf.cast(x, tf.bfloat16), tf.float32), real(9)
        ),
        call(
            "cast u8 to f64", lambda x: tf.cast(x, tf.float64), integer(9, dtype=np.uint8, high=256)
        ),
        call("saturate_cast", lambda x: tf.saturate_cast(x, tf.int8), real(9, low=-300, high=300)),
        call("bitcast", lambda x: tf.bitcast(x, tf.int32), real(9)),
        call("bitcast to bytes", lambda x: tf.bitcast(x, tf.uint8), real(9)),
        call(
            "bitcast from bytes", lambda x: tf.bitcast(x, tf.float32), integer(3, 4, dtype=np.uint8)
        ),
        call("where", tf.where, boolean(3, 4), real(3, 4), real(3, 4)),
        call("where, repeated", lambda c, x: tf.where(c[:, None], x, 0.0), boolean(3), real(3, 4)),
    ]


BASE = [*_unary(), *_binary()]
WITH_GRADIENT = (
    "exp f32; lgamma f64; erf f32; softplus f64; digamma f32; sqrt f32; softplus f32; log1p f32;"
    " exp c64; sin c64; tanh c128; atan2 f32; divide f32; pow f32; pow f64, repeated; xlogy f32;"
    " maximum f64, repeated; squared_difference f32; igamma; betainc; where; clip_by_norm"
)
CALLS = [*BASE, *gradients_of(BASE, WITH_GRADIENT)]
