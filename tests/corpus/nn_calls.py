"""tf.nn: convolutions, pools, activations, losses, normalisation."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.corpus.calls import (
    Call,
    brain,
    call,
    double,
    gradients_of,
    half,
    integer,
    real,
    value,
    words,
)

ACTIVATIONS = words(
    "crelu elu gelu leaky_relu log_softmax relu relu6 selu sigmoid silu softmax softplus"
    " softsign tanh"
)


def _activations() -> list[Call]:
    return [
        *(call(name, getattr(tf.nn, name), real(4, 6)) for name in ACTIVATIONS),
        call("softmax f64", tf.nn.softmax, double(4, 6)),
        call("softmax f16", tf.nn.softmax, half(4, 6)),
        call("softmax bf16, axis 0", lambda x: tf.nn.softmax(x, 0), brain(4, 6)),
        call("gelu, approximate", lambda x: tf.nn.gelu(x, approximate=True), real(4, 6)),
        call("bias_add", tf.nn.bias_add, real(2, 3, 4), real(4)),
        call("dropout of nothing", lambda x: tf.nn.dropout(x, 0.0), real(4)),
        call(
            "stateless_dropout",
            lambda x: tf.nn.experimental.stateless_dropout(x, 0.5, [1, 2]),
            real(9),
        ),
        call("embedding_lookup", tf.nn.embedding_lookup, real(6, 3), integer(4, high=6)),
        call("attention", _attention, real(2, 5, 3), real(2, 7, 3), real(2, 7, 4)),
        call("one_hot", lambda x: tf.one_hot(x, 5), integer(4, high=5)),
    ]


def _attention(queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    return tf.matmul(tf.nn.softmax(tf.matmul(queries, keys, transpose_b=True)), values)


def _losses() -> list[Call]:
    return [
        call(
            "softmax_cross_entropy",
            tf.nn.softmax_cross_entropy_with_logits,
            real(4, 6, low=0),
            real(4, 6),
        ),
        call(
            "sparse_softmax_cross_entropy",
            tf.nn.sparse_softmax_cross_entropy_with_logits,
            integer(4, high=6),
            real(4, 6),
        ),
        call(
            "sigmoid_cross_entropy",
            tf.nn.sigmoid_cross_entropy_with_logits,
            real(4, 6, low=0),
            real(4, 6),
        ),
        call(
            "weighted_cross_entropy",
            lambda x, y: tf.nn.weighted_cross_entropy_with_logits(x, y, 2.0),
            real(4, low=0),
            real(4),
        ),
        call("log_poisson_loss", tf.nn.log_poisson_loss, real(4, low=0), real(4)),
        call("l2_loss", tf.nn.l2_loss, real(4, 6)),
        call("ctc_loss", _ctc_loss, real(8, 3, 5)),
        call("moments", lambda x: tf.nn.moments(x, [0]), real(4, 6)),
        call(
            "weighted_moments",
            lambda x, w: tf.nn.weighted_moments(x, [0], w),
            real(4, 6),
            real(4, 1, low=0.1),
        ),
        call(
            "batch_normalization",
            lambda x, s: tf.nn.batch_normalization(x, x[0], s, None, None, 1e-3),
            real(4, 6),
            real(6, low=0.1),
        ),
        call("fused_batch_norm", _fused_batch_norm, real(2, 4, 4, 3), real(3), real(3)),
        call(
            "fused_batch_norm, inference",
            _fused_batch_norm_inference,
            real(2, 4, 4, 3),
            real(3),
            real(3, low=0.1),
        ),
        call("local_response_normalization", tf.nn.local_response_normalization, real(2, 4, 4, 6)),
    ]


def _ctc_loss(logits: tf.Tensor) -> tf.Tensor:
    labels = tf.constant([[1, 2]] * 3)
    return tf.nn.ctc_loss(labels, logits, tf.constant([2] * 3), tf.constant([8] * 3))


def _fused_batch_norm(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    return tf.compat.v1.nn.fused_batch_norm(x, scale, offset)[0]


def _fused_batch_norm_inference(x: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    ones, zeros = tf.ones(3), tf.zeros(3)
    return tf.compat.v1.nn.fused_batch_norm(x, ones, zeros, mean, variance, is_training=False)[0]


def _convolutions() -> list[Call]:
    image, kernel = real(2, 6, 7, 3), real(3, 2, 3, 4)
    return [
        call("conv1d", lambda x, k: tf.nn.conv1d(x, k, 2, "SAME"), real(2, 9, 3), real(4, 3, 5)),
        call("conv2d", lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"), image, kernel),
        call(
            "conv2d f64, valid",
            lambda x, k: tf.nn.conv2d(x, k, 2, "VALID"),
            double(2, 6, 7, 3),
            double(3, 2, 3, 4),
        ),
        call(
            "conv2d f16",
            lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"),
            half(2, 6, 7, 3),
            half(3, 2, 3, 4),
        ),
        call(
            "conv2d, explicit padding",
            lambda x, k: tf.nn.conv2d(x, k, 1, [[0, 0], [2, 1], [0, 3], [0, 0]]),
            image,
            kernel,
        ),
        call(
            "conv2d, dilated",
            lambda x, k: tf.nn.conv2d(x, k, 1, "SAME", dilations=2),
            image,
            kernel,
        ),
        call(
            "conv2d, groups",
            lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"),
            real(2, 5, 5, 4),
            real(3, 3, 2, 6),
        ),
        call(
            "conv2d, one image",
            lambda x, k: tf.nn.conv2d(x, k, 1, "VALID"),
            real(1, 4, 4, 1),
            real(4, 4, 1, 1),
        ),
        call(
            "conv3d",
            lambda x, k: tf.nn.conv3d(x, k, [1] * 5, "SAME"),
            real(1, 4, 4, 4, 2),
            real(2, 2, 2, 2, 3),
        ),
        call(
            "conv2d_transpose",
            lambda x, k: tf.nn.conv2d_transpose(x, k, [2, 8, 8, 3], 2),
            real(2, 4, 4, 5),
            real(3, 3, 3, 5),
        ),
        call(
            "depthwise_conv2d",
            lambda x, k: tf.nn.depthwise_conv2d(x, k, [1, 2, 2, 1], "SAME"),
            real(2, 6, 6, 3),
            real(3, 3, 3, 2),
        ),
        call(
            "separable_conv2d",
            lambda x, d, p: tf.nn.separable_conv2d(x, d, p, [1] * 4, "SAME"),
            real(2, 6, 6, 3),
            real(3, 3, 3, 2),
            real(1, 1, 6, 4),
        ),
        call(
            "atrous_conv2d",
            lambda x, k: tf.nn.atrous_conv2d(x, k, 2, "VALID"),
            image,
            real(2, 2, 3, 4),
        ),
        call(
            "dilation2d",
            lambda x, k: tf.nn.dilation2d(x, k, [1] * 4, "SAME", "NHWC", [1] * 4),
            image,
            real(2, 2, 3),
        ),
        call("max_pool2d", lambda x: tf.nn.max_pool2d(x, 2, 2, "SAME"), image),
        call(
            "max_pool2d, overlapping",
            lambda x: tf.nn.max_pool2d(x, 3, 1, "VALID"),
            double(2, 6, 7, 3),
        ),
        call("max_pool1d", lambda x: tf.nn.max_pool1d(x, 2, 2, "VALID"), real(2, 9, 3)),
        call("max_pool3d", lambda x: tf.nn.max_pool3d(x, 2, 2, "SAME"), real(1, 4, 4, 4, 2)),
        call("avg_pool2d", lambda x: tf.nn.avg_pool2d(x, 2, 2, "SAME"), image),
        call("avg_pool2d f16", lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID"), half(2, 6, 7, 3)),
        call("max_pool_with_argmax", lambda x: tf.nn.max_pool_with_argmax(x, 2, 2, "SAME"), image),
        call(
            "fractional_max_pool",
            lambda x: tf.nn.fractional_max_pool(x, [1, 1.4, 1.4, 1], seed=1),
            image,
        ),
        call("space_to_depth", lambda x: tf.nn.space_to_depth(x, 2), real(2, 4, 6, 3)),
        call("depth_to_space", lambda x: tf.nn.depth_to_space(x, 2), real(2, 2, 3, 8)),
        call("space_to_batch", lambda x: tf.space_to_batch(x, [2, 2], [[0, 0], [0, 1]]), image),
        call(
            "batch_to_space",
            lambda x: tf.batch_to_space(x, [2, 2], [[0, 0], [0, 1]]),
            real(8, 3, 4, 3),
        ),
        call("pool", lambda x: tf.nn.pool(x, [2, 2], "MAX", [1, 1], "SAME"), image),
        call("lstm cell", _lstm_cell, real(2, 3), real(2, 4), real(2, 4), real(7, 16)),
        call(
            "normalised batch of one",
            lambda x: tf.nn.moments(x, [0, 1, 2]),
            value(np.ones((1, 2, 2, 3)), np.float32),
        ),
    ]


def _lstm_cell(x: tf.Tensor, h: tf.Tensor, c: tf.Tensor, w: tf.Tensor) -> list[tf.Tensor]:
    i, f, o, g = tf.split(tf.concat([x, h], 1) @ w, 4, 1)
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
    return [tf.sigmoid(o) * tf.tanh(c), c]


BASE = [*_activations(), *_losses(), *_convolutions()]
WITH_GRADIENT = (
    "elu; gelu; selu; log_softmax; softmax f64; embedding_lookup; attention;"
    " softmax_cross_entropy; sparse_softmax_cross_entropy; ctc_loss; moments; fused_batch_norm;"
    " local_response_normalization; conv1d; conv2d; conv2d f64, valid; conv2d, dilated;"
    " conv2d, groups; conv3d; conv2d_transpose; depthwise_conv2d; separable_conv2d;"
    " max_pool2d; max_pool2d, overlapping; max_pool3d; avg_pool2d; lstm cell"
)
CALLS = [*BASE, *gradients_of(BASE, WITH_GRADIENT)]
