"""tf.image: sizes, colours, filters, boxes."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.corpus.calls import call, double, gradients_of, integer, real

IMAGE = real(2, 8, 8, 3, low=0, high=1)
METHODS = ("bilinear", "nearest", "bicubic", "area", "lanczos3", "gaussian")


def _crop_and_resize(images: tf.Tensor) -> tf.Tensor:
    boxes = tf.constant([[0.1, 0.1, 0.9, 0.8]])
    return tf.image.crop_and_resize(images, boxes, [1], [4, 4])


def _patches(images: tf.Tensor) -> tf.Tensor:
    return tf.image.extract_patches(images, [1, 3, 3, 1], [1, 2, 2, 1], [1, 1, 1, 1], "SAME")


BASE = [
    *(
        call(f"resize {method}", lambda x, m=method: tf.image.resize(x, [5, 12], m), IMAGE)
        for method in METHODS
    ),
    call("resize, antialiased", lambda x: tf.image.resize(x, [4, 4], antialias=True), IMAGE),
    call("resize u8", lambda x: tf.image.resize(x, [5, 5]), integer(1, 8, 8, 3, dtype=np.uint8)),
    call("resize_with_pad", lambda x: tf.image.resize_with_pad(x, 6, 12), IMAGE),
    call("central_crop", lambda x: tf.image.central_crop(x, 0.5), IMAGE),
    call("crop_and_resize", _crop_and_resize, IMAGE),
    call("crop_to_bounding_box", lambda x: tf.image.crop_to_bounding_box(x, 1, 2, 4, 5), IMAGE),
    call("pad_to_bounding_box", lambda x: tf.image.pad_to_bounding_box(x, 1, 2, 12, 12), IMAGE),
    call("resize_with_crop_or_pad", lambda x: tf.image.resize_with_crop_or_pad(x, 6, 10), IMAGE),
    call("flip_left_right", tf.image.flip_left_right, IMAGE),
    call("flip_up_down", tf.image.flip_up_down, double(2, 4, 4, 3)),
    call("rot90", tf.image.rot90, IMAGE),
    call("transpose", tf.image.transpose, IMAGE),
    call("rgb_to_grayscale", tf.image.rgb_to_grayscale, IMAGE),
    call("grayscale_to_rgb", tf.image.grayscale_to_rgb, real(2, 4, 4, 1)),
    call("rgb_to_hsv", tf.image.rgb_to_hsv, IMAGE),
    call("hsv_to_rgb", tf.image.hsv_to_rgb, IMAGE),
    call("rgb_to_yiq", tf.image.rgb_to_yiq, IMAGE),
    call("rgb_to_yuv", tf.image.rgb_to_yuv, IMAGE),
    call("adjust_brightness", lambda x: tf.image.adjust_brightness(x, 0.2), IMAGE),
    call("adjust_contrast", lambda x: tf.image.adjust_contrast(x, 2.0), IMAGE),
    call("adjust_gamma", lambda x: tf.image.adjust_gamma(x, 0.7), IMAGE),
    call("adjust_hue", lambda x: tf.image.adjust_hue(x, 0.2), IMAGE),
    call("adjust_saturation", lambda x: tf.image.adjust_saturation(x, 0.5), IMAGE),
    call("per_image_standardization", tf.image.per_image_standardization, IMAGE),
    call("convert_image_dtype", lambda x: tf.image.convert_image_dtype(x, tf.uint8), IMAGE),
    call("image_gradients", tf.image.image_gradients, IMAGE),
    call("sobel_edges", tf.image.sobel_edges, IMAGE),
    call("total_variation", tf.image.total_variation, IMAGE),
    call("psnr", lambda x, y: tf.image.psnr(x, y, 1.0), IMAGE, IMAGE),
    call("ssim", lambda x, y: tf.image.ssim(x, y, 1.0, filter_size=3), IMAGE, IMAGE),
    call("extract_patches", _patches, IMAGE),
    call(
        "non_max_suppression",
        lambda b, s: tf.image.non_max_suppression_padded(b, s, 3, pad_to_max_output_size=True),
        real(6, 4, low=0, high=1),
        real(6),
    ),
    call(
        "stateless_random_flip",
        lambda x: tf.image.stateless_random_flip_left_right(x, [1, 2]),
        IMAGE,
    ),
    call(
        "stateless_random_brightness",
        lambda x: tf.image.stateless_random_brightness(x, 0.2, [1, 2]),
        IMAGE,
    ),
    call(
        "stateless_random_crop",
        lambda x: tf.image.stateless_random_crop(x, [2, 4, 4, 3], [1, 2]),
        IMAGE,
    ),
]


CALLS = [
    *BASE,
    *gradients_of(
        BASE,
        "resize bilinear; resize nearest; rgb_to_yuv; ssim; total_variation",
    ),
]
