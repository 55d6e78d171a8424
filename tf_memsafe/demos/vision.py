"""A vision transformer in Keras that learns digits: the second part of the attention demo."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from sklearn.datasets import load_digits

import tf_memsafe
from tf_memsafe.demos.arguments import positive
from tf_memsafe.demos.console import measure, say
from tf_memsafe.demos.runs import measured
from tf_memsafe.limits import format_bytes

Floats = npt.NDArray[np.float32]

CLASSES = 10


class Attention(keras.layers.Layer):
    """Self-attention of [batch, length, width] as the textbook writes it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.inputs = keras.layers.Dense(3 * width, use_bias=False)
        self.outputs = keras.layers.Dense(width)
        self.width, self.heads = width, heads

    def call(self, sequence: tf.Tensor) -> tf.Tensor:
        """Attends from each place to all places of its sequence."""
        length, size = sequence.shape[1], self.width // self.heads
        parts = tf.reshape(self.inputs(sequence), [-1, length, 3, self.heads, size])
        queries, keys, values = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
        scores = tf.matmul(queries, keys, transpose_b=True) / size**0.5
        attended = tf.matmul(tf.nn.softmax(scores), values)
        return self.outputs(
            tf.reshape(tf.transpose(attended, [0, 2, 1, 3]), [-1, length, self.width])
        )


class Block(keras.layers.Layer):
    """A Transformer block: attention, then a small network at each place, both added to it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.network = keras.Sequential(
            [keras.layers.Dense(2 * width, activation="gelu"), keras.layers.Dense(width)]
        )
        self.first, self.second = (keras.layers.LayerNormalization() for _ in range(2))

    def call(self, sequence: tf.Tensor) -> tf.Tensor:
        """A sequence [batch, length, width] for one of the same shape."""
        sequence = sequence + self.attention(self.first(sequence))
        return sequence + self.network(self.second(sequence))


class Places(keras.layers.Layer):
    """Adds a vector of its own to each place of a sequence [batch, length, width]."""

    def build(self, shape: Any) -> None:
        """Makes the vectors, once the length is known."""
        self.vectors = self.add_weight(shape=shape[1:], initializer="random_normal")

    def call(self, sequence: tf.Tensor) -> tf.Tensor:
        """The sequence with the vectors added."""
        return sequence + self.vectors


def vision_transformer(side: int, patch: int, width: int, heads: int, layers: int) -> Any:
    """A model of images [batch, side, side, 1] that gives the scores [batch, 10] of each digit."""
    length = (side // patch) ** 2
    return keras.Sequential(
        [
            keras.Input([side, side, 1]),
            keras.layers.Conv2D(width, patch, strides=patch),
            keras.layers.Reshape([length, width]),
            Places(),
            *(Block(width, heads) for _ in range(layers)),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(CLASSES),
        ]
    )


def training_step(model: Any) -> Any:
    """A step of Adam on images [batch, side, side, 1] and labels [batch]; it returns the loss."""
    optimizer = keras.optimizers.Adam(3e-3)
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function(jit_compile=True)
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return step


def large_digits(side: int) -> tuple[Floats, npt.NDArray[np.int64]]:
    """scikit-learn's 1,797 digits of 8 x 8, each dot made a square: images [n, side, side, 1]."""
    digits = load_digits()
    dots = np.ones([1, side // 8, side // 8])
    images = np.kron(digits.images / 16, dots)[..., None]
    return images.astype(np.float32), digits.target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this part of the demo."""
    group = parser.add_argument_group("training")
    group.add_argument("--train-memory-limit", default="300MB", help="while the model is trained")
    group.add_argument("--steps", type=positive, default=30, help="of training")
    group.add_argument("--batch", type=positive, default=16, help="images in each step")
    group.add_argument("--side", type=positive, default=64, help="of an image; a multiple of 8")
    group.add_argument("--patch", type=positive, default=2, help="side of a patch")
    group.add_argument("--width", type=positive, default=64, help="of the model")
    group.add_argument("--layers", type=positive, default=2, help="Transformer blocks")


def train(options: argparse.Namespace) -> dict[str, Any]:
    """Trains a model under a limit of its own; the loss of each step, and whether it fell."""
    random = np.random.default_rng(options.seed)
    keras.utils.set_random_seed(options.seed)
    images, labels = large_digits(options.side)
    model = vision_transformer(options.side, options.patch, options.width, 4, options.layers)
    step = training_step(model)

    def batch() -> list[tf.Tensor]:
        rows = random.choice(len(images), options.batch, replace=False)
        return [tf.constant(images[rows]), tf.constant(labels[rows])]

    length = (options.side // options.patch) ** 2
    say(f"A vision transformer on {options.batch} images of {length:,} patches:")
    with tf_memsafe.memory_limit(options.train_memory_limit):
        limit, first = tf_memsafe.get_memory_limit(), batch()
        loss, took = measured(lambda: float(step(*first)), step, *first)
        losses = [loss]
        say(f"    1  loss {loss:.4f}  {took}")
        for number in range(2, options.steps + 1):
            loss, cost = measure(lambda: float(step(*batch())))
            losses.append(loss)
            grown = format_bytes(cost.resident)
            say(f"  {number:>3}  loss {loss:.4f}  {cost.seconds:.1f} s  resident memory + {grown}")
    some = max(1, len(losses) // 4)
    right = bool(np.mean(losses[-some:]) <= np.mean(losses[:some]))
    return {"right": right, "memory_limit": limit, "losses": losses, "runs": [asdict(took)]}
