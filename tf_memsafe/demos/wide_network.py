"""Digits told by infinitely wide networks: regression by the neural tangent kernel.

A ReLU network of infinite width that is trained to the end is a regression by a kernel, here made
from arc-cosine kernels layer by layer. Written naively, each of its layers is a matrix of all pairs
of images, made anew in each step of the conjugate gradients that solve for the weights. The images
are scikit-learn's digits, each also shifted by a dot in eight directions.

  python -m tf_memsafe.demos.wide_network --memory-limit 50MB
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from sklearn.datasets import load_digits

from tf_memsafe.demos import arguments, figures
from tf_memsafe.demos.conjugate import conjugate_gradients
from tf_memsafe.demos.console import say
from tf_memsafe.demos.runs import run

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

CLASSES = 10
SHOWN = 12
LEAST_RIGHT = 0.9
"""What share of digits has to be right."""


def tangent_kernel(x: tf.Tensor, y: tf.Tensor, layers: int) -> tf.Tensor:
    """The tangent kernel of a ReLU network with these hidden layers, for inputs of length 1.

    Of each of x [n, d] with each of y [m, d], as [n, m].
    """
    cosines = tf.matmul(x, y, transpose_b=True)
    kernel = cosines
    for _ in range(layers):
        cosines = tf.clip_by_value(cosines, -1, 1)
        angles = tf.acos(cosines)
        slopes = 1 - angles / np.pi  # the arc-cosine kernel of order 0
        cosines = tf.sqrt(1 - cosines**2) / np.pi + cosines * slopes  # and of order 1
        kernel = cosines + kernel * slopes
    return kernel


def classifier(layers: int, ridge: float, steps: int) -> Any:
    """Regression of classes on images x [n, d] by the tangent kernel, naively.

    The function takes x, targets [n, classes] and new images [m, d]; all images have length 1. It
    returns the scores [m, classes] and how many steps it took.
    """

    @tf.function(jit_compile=True)
    def predict(x: tf.Tensor, targets: tf.Tensor, new: tf.Tensor) -> Any:
        def product_with_kernel(v: tf.Tensor) -> tf.Tensor:
            return tf.matmul(tangent_kernel(x, x, layers), v) + ridge * v

        weights, step = conjugate_gradients(product_with_kernel, targets, steps, 1e-3)
        return tf.matmul(tangent_kernel(new, x, layers), weights), step

    return predict


def main(given: Sequence[str] | None = None) -> int:
    """Learns the digits, and checks that nearly all are told."""
    parser = arguments.parser("wide_network", __doc__, "50MB")
    count = arguments.positive
    parser.add_argument("--num-train", type=count, default=5_000, help="images, shifted or not")
    parser.add_argument("--layers", type=count, default=3, help="hidden, of the network")
    parser.add_argument("--ridge", type=float, default=0.1, help="added to the kernel's diagonal")
    parser.add_argument("--steps", type=count, default=100, help="of conjugate gradients, at most")
    return arguments.run(_demo, parser, given)


def shifted(images: Floats) -> Floats:
    """Images [n, side, side] and the same shifted in eight directions, as [9 n, side, side]."""
    return np.concatenate(
        [np.roll(images, shift, (1, 2)) for shift in product((0, -1, 1), repeat=2)]
    )


def of_length_1(images: Floats) -> Floats:
    """Images [n, side, side] as rows of length 1."""
    rows = images.reshape(len(images), -1)
    lengths: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return lengths


def _demo(options: argparse.Namespace) -> dict[str, Any]:
    random = np.random.default_rng(options.seed)
    digits = load_digits()
    rows = random.permutation(len(digits.images))
    images, labels = digits.images[rows].astype(np.float32), digits.target[rows]
    learnt = 2 * len(images) // 3
    train, classes = shifted(images[:learnt]), np.tile(labels[:learnt], 9)
    chosen = random.permutation(len(train))[: options.num_train]
    targets = np.eye(CLASSES, dtype=np.float32)[classes[chosen]] - 1 / CLASSES
    tensors = [of_length_1(train[chosen]), targets, of_length_1(images[learnt:])]

    predict = classifier(options.layers, options.ridge, options.steps)
    message = f"{len(chosen):,} images"
    (scores, steps), took = run(message, predict, *map(tf.constant, tensors))
    right = scores.argmax(1) == labels[learnt:]
    share = float(right.mean())
    say(f"{message}: {steps} steps, {took}; {share:.2%} of {len(right)} digits are right")
    _draw(images[learnt:], scores, right, options)
    return {"right": share >= LEAST_RIGHT, "share": share, "runs": [asdict(took)]}


def _draw(
    images: Floats, scores: Floats, right: npt.NDArray[np.bool_], options: argparse.Namespace
) -> None:
    """The digits that were told with the least margin, wrong ones in red."""
    best = np.sort(scores, 1)
    hardest = np.argsort(best[:, -1] - best[:, -2])[:SHOWN]
    figure, (axes,) = figures.panels(1, "The digits that were hardest to tell, and what was said")
    axes.axis("off")
    for place, row in enumerate(hardest):
        inner = axes.inset_axes((place % 4 / 4, 1 - (place // 4 + 1) / 3, 0.22, 0.24))
        inner.imshow(images[row], cmap="gray_r")
        inner.set_title(str(scores[row].argmax()), color="black" if right[row] else "firebrick")
        inner.axis("off")
    figures.save(figure, options.figure)


if __name__ == "__main__":
    sys.exit(main())
