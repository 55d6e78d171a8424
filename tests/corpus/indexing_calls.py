"""Slices, gathers, scatters, and ops that only move elements."""

from __future__ import annotations

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
)

INDEX = integer(high=4)


def _slices() -> list[Call]:
    return [
        call("basic slice", lambda x: x[1:3, ::2], real(4, 6)),
        call("negative strides", lambda x: x[::-1, -2::-2], double(4, 6)),
        call("new axes", lambda x: x[:, None, ..., 0], real(4, 6, 2)),
        call("dynamic index", lambda x, i: x[i], real(4, 6), INDEX),
        call(
            "dynamic index i64", lambda x, i: x[:, i], double(6, 4), integer(dtype=np.int64, high=4)
        ),
        call("dynamic slice", lambda x, i: tf.slice(x, [i, 0], [2, 3]), real(6, 4), INDEX),
        call(
            "boolean_mask", tf.boolean_mask, real(9), boolean(9), unsupported="set-dimension-size"
        ),
        call("where, positions", tf.where, boolean(9), unsupported="set-dimension-size"),
        call(
            "sum of a mask",
            lambda x, m: tf.reduce_sum(tf.boolean_mask(x, m)),
            real(9),
            boolean(9),
            unsupported="set-dimension-size",
        ),
        call(
            "strided slice update",
            lambda x, y: tf.raw_ops.TensorStridedSliceUpdate(
                input=x, begin=[1, 0], end=[3, 2], strides=[1, 1], value=y
            ),
            real(4, 6),
            real(2, 2),
        ),
        call(
            "dynamic update",
            lambda x, i, y: tf.tensor_scatter_nd_update(x, [[i]], [y]),
            real(4, 6),
            INDEX,
            real(6),
        ),
        call(
            "inplace update",
            lambda x, y: tf.raw_ops.InplaceUpdate(x=x, i=[1], v=y),
            real(4, 6),
            real(1, 6),
        ),
        call("split", lambda x: tf.split(x, [1, 3, 2], 1), real(4, 6)),
        call("unstack", lambda x: tf.unstack(x, axis=1), real(4, 3)),
        call("stack", lambda x, y: tf.stack([x, y], 1), real(4, 3), real(4, 3)),
        call("concat", lambda x, y: tf.concat([x, y, x], 0), half(4, 3), half(2, 3)),
        call("concat with nothing", lambda x, y: tf.concat([x, y], 0), real(4, 3), real(0, 3)),
    ]


def _gathers() -> list[Call]:
    at = value([[0, 1], [3, 2]], np.int32)
    return [
        call("gather", tf.gather, real(4, 6), integer(5, high=4)),
        call(
            "gather, axis 1",
            lambda x, i: tf.gather(x, i, axis=1),
            double(4, 6, 2),
            integer(3, 5, high=6),
        ),
        call(
            "gather, batch",
            lambda x, i: tf.gather(x, i, batch_dims=1),
            real(4, 6, 2),
            integer(4, 3, high=6),
        ),
        call("gather i64", tf.gather, integer(9, dtype=np.int64), integer(5, dtype=np.int64)),
        call("gather bool", tf.gather, boolean(9), integer(5)),
        call("gather, out of bounds", tf.gather, real(4, 2), value([0, 9, -3], np.int32)),
        call("gather from nothing", tf.gather, real(4, 0), integer(5, high=4)),
        call("gather_nd", tf.gather_nd, real(4, 6), at),
        call("gather_nd, rows", tf.gather_nd, real(4, 6, 2), at),
        call("gather_nd, batch", lambda x, i: tf.gather_nd(x, i, batch_dims=1), real(2, 4, 3), at),
        call("take_along", lambda x: tf.gather(x, tf.argsort(x), batch_dims=1), real(4, 6)),
        call("scatter_nd", lambda i, u: tf.scatter_nd(i, u, [4, 6]), at, real(2)),
        call(
            "scatter_nd, rows",
            lambda i, u: tf.scatter_nd(i, u, [4, 6]),
            integer(5, 1, high=4),
            double(5, 6),
        ),
        call("tensor_scatter_nd_update", tf.tensor_scatter_nd_update, real(4, 6), at, real(2)),
        call("tensor_scatter_nd_add", tf.tensor_scatter_nd_add, real(4, 6, 2), at, real(2, 2)),
        call("tensor_scatter_nd_sub", tf.tensor_scatter_nd_sub, integer(4, 6), at, integer(2)),
        call("tensor_scatter_nd_max", tf.tensor_scatter_nd_max, double(4, 6), at, double(2)),
        call("tensor_scatter_nd_min", tf.tensor_scatter_nd_min, real(4, 6), at, real(2)),
        call(
            "dynamic_stitch",
            lambda i, j, x, y: tf.dynamic_stitch([i, j], [x, y]),
            value([0, 2], np.int32),
            value([3, 1], np.int32),
            real(2, 3),
            real(2, 3),
        ),
        call(
            "dynamic_partition",
            lambda x, p: tf.dynamic_partition(x, p, 2),
            real(6),
            integer(6, high=2),
            unsupported="set-dimension-size",
        ),
        call("invert_permutation", tf.math.invert_permutation, value([2, 0, 1, 3], np.int32)),
        call(
            "embedding of rows",
            lambda x, i: tf.reduce_sum(tf.gather(x, i), 1),
            real(6, 3),
            integer(4, 2, high=6),
        ),
    ]


def _views() -> list[Call]:
    return [
        call("reshape", lambda x: tf.reshape(x, [3, -1]), real(4, 6)),
        call("reshape of nothing", lambda x: tf.reshape(x, [0, 5]), real(4, 0)),
        call("transpose", lambda x: tf.transpose(x, [2, 0, 1]), real(4, 6, 2)),
        call("broadcast_to", lambda x: tf.broadcast_to(x, [3, 4, 6]), brain(4, 1)),
        call("tile", lambda x: tf.tile(x, [2, 3]), real(4, 6)),
        call("repeat", lambda x: tf.repeat(x, 3, 1), real(4, 6)),
        call("pad", lambda x: tf.pad(x, [[1, 0], [2, 3]], constant_values=7), real(4, 6)),
        call("pad, reflected", lambda x: tf.pad(x, [[1, 0], [2, 3]], "REFLECT"), real(4, 6)),
        call("pad, symmetric", lambda x: tf.pad(x, [[1, 0], [2, 3]], "SYMMETRIC"), integer(4, 6)),
        call("roll", lambda x: tf.roll(x, [1, -2], [0, 1]), real(4, 6)),
        call("reverse", lambda x: tf.reverse(x, [1]), complex_(4, 6)),
        call(
            "reverse_sequence",
            lambda x, n: tf.reverse_sequence(x, n, 1),
            real(4, 6),
            integer(4, low=1, high=6),
        ),
        call("squeeze", lambda x: tf.squeeze(x, 1), real(4, 1, 6)),
        call("expand_dims", lambda x: tf.expand_dims(x, -1), boolean(4)),
        call("meshgrid", tf.meshgrid, real(4), real(3)),
        call("range", lambda x: x + tf.range(5, dtype=tf.float32), real(5)),
        call("linspace", lambda x, y: tf.linspace(x, y, 7), real(), real()),
        call("fill", lambda x: tf.fill([2, 3], x), double()),
        call("shape", tf.shape, real(4, 6)),
        call(
            "size of a mask",
            lambda x: tf.shape(tf.where(x))[0],
            boolean(9),
            unsupported="set-dimension-size",
        ),
        call("sequence_mask", lambda n: tf.sequence_mask(n, 6), integer(4, high=6)),
        call("identity", tf.identity, real(4)),
        call("same argument twice", lambda x: [x, x], real(4)),
        call("constant only", lambda x: tf.constant([1.5, 2.5]), real(4)),
        call(
            "u64 constants",
            lambda x: x ^ tf.constant([2**63, 5], tf.uint64),
            integer(2, dtype=np.uint64),
        ),
        call("bf16 constants", lambda x: x * tf.constant([1.5, -2.25], tf.bfloat16), brain(2)),
        call("f16 constants", lambda x: x * tf.constant([1.5, -2.25], tf.float16), half(2)),
        call(
            "c64 constants",
            lambda x: x * tf.constant([1.5 + 1j, -2.25j], tf.complex64),
            complex_(2),
        ),
        call("bool constants", lambda x: x & tf.constant([True, False]), boolean(2)),
        call(
            "i8 constants",
            lambda x: x + tf.constant([-128, 127], tf.int8),
            integer(2, dtype=np.int8),
        ),
        call("nan and inf constants", lambda x: x + tf.constant([np.nan, np.inf]), real(2)),
        call(
            "large constant",
            lambda x: x + np.arange(600, dtype=np.float32).reshape(20, 30),
            real(20, 30),
        ),
        call("scalars", lambda x, y: x * y + 1, real(), real()),
        call("no argument", lambda: tf.eye(3)),
    ]


BASE = [*_slices(), *_gathers(), *_views()]
WITH_GRADIENT = (
    "basic slice; negative strides; dynamic index; dynamic slice; dynamic update; stack; concat;"
    " gather; gather, axis 1; gather, batch; gather_nd; gather_nd, rows; scatter_nd;"
    " tensor_scatter_nd_update; tensor_scatter_nd_add; tensor_scatter_nd_max; pad, reflected;"
    " tile; repeat; roll; reverse_sequence; transpose; embedding of rows"
)
CALLS = [*BASE, *gradients_of(BASE, WITH_GRADIENT)]
