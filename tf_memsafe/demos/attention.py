"""Softmax attention as the textbook writes it, on sequences that do not fit its score matrix.

Two parts, each under a memory limit:

  sweep   attention, forward and backward, on longer and longer sequences; then the longest
          sequence that fits each of several limits, with and without tf_memsafe
  train   a Transformer (vision transformer) in Keras that learns scikit-learn's digits, each
          image made large enough that its patches are a long sequence

Run them with

  python -m tf_memsafe.demos.attention --memory-limit 1GB --lengths 1024 4096 16384
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from matplotlib.figure import Figure

import tf_memsafe
from tf_memsafe.demos import arguments, figures, vision
from tf_memsafe.demos.console import progress, say, table
from tf_memsafe.demos.runs import HEADINGS, run

Floats = npt.NDArray[np.float32]

PARTS = ("sweep", "train")
CHECKED_ROWS = 16
TOLERANCE = 1e-4
"""Of the largest value: what attention may be off by in f32."""


def attention(queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Attention [heads, length, size] as the textbook writes it: the scores are length x length."""
    scores = tf.matmul(queries, keys, transpose_b=True) / queries.shape[-1] ** 0.5
    return tf.matmul(tf.nn.softmax(scores), values)


@tf.function(jit_compile=True)
def forward(queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor) -> Any:
    """Attention on [heads, length, size], alone in a list."""
    return [attention(queries, keys, values)]


@tf.function(jit_compile=True)
def backward(queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor) -> Any:
    """Attention on [heads, length, size], and the gradients of half its squares to all three."""
    with tf.GradientTape() as tape:
        tape.watch([queries, keys, values])
        attended = attention(queries, keys, values)
        loss = 0.5 * tf.reduce_sum(attended**2)
    return [attended, *tape.gradient(loss, [queries, keys, values])]


def main(given: Sequence[str] | None = None) -> int:
    """Runs the parts, prints what they took and checks them; returns what `arguments.run` does."""
    parser = arguments.parser("attention", __doc__)
    count = arguments.positive
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to run"
    )
    parser.add_argument(
        "--lengths", type=count, nargs="+", default=[1024, 2048, 4096, 8192], help="of sequences"
    )
    parser.add_argument("--heads", type=count, default=8, help="heads of attention")
    parser.add_argument("--size", type=count, default=64, help="of each head")
    parser.add_argument(
        "--limits",
        nargs="+",
        default=["64MB", "128MB", "256MB", "512MB", "1GB"],
        help="to find the longest sequences for",
    )
    vision.add_arguments(parser)
    return arguments.run(_demo, parser, given)


def _demo(options: argparse.Namespace) -> dict[str, Any]:
    parts = {"sweep": _sweep, "train": vision.train}
    found = {name: parts[name](options) for name in PARTS if name in options.parts}
    return {"right": all(part["right"] for part in found.values()), **found}


def _sweep(options: argparse.Namespace) -> dict[str, Any]:
    random = np.random.default_rng(options.seed)
    rows, errors, runs = [["length", "pass", *HEADINGS, "largest error"]], [], []
    for length in options.lengths:
        shape = (options.heads, length, options.size)
        inputs = [random.normal(size=shape).astype(np.float32) for _ in range(3)]
        for name, function in (("forward", forward), ("backward", backward)):
            message = f"Length {length:,}, {name}"
            results, took = run(message, function, *map(tf.constant, inputs))
            errors.append(_row_error(inputs, results[0], random))
            runs.append({"length": length, "pass": name, **asdict(took)})
            rows.append([f"{length:,}", name, *took.cells(), f"{errors[-1]:.1e}"])
    say("", table(rows), "")
    longest = {limit: _longest(limit, options) for limit in options.limits}
    say(
        "The longest sequences, of powers of two, that fit forward and backward:",
        table([["limit", "as written", "under the limit"], *_longest_rows(longest)]),
    )
    found = {
        "right": max(errors) <= TOLERANCE,
        "heads": options.heads,
        "size": options.size,
        "errors": errors,
        "runs": runs,
        "longest": longest,
    }
    figures.save(draw(found), options.figure)
    return found


def _row_error(inputs: list[Floats], attended: Floats, random: np.random.Generator) -> float:
    """How far rows of attention are from attention in f64, over the largest of them."""
    queries, keys, values = (each.astype(np.float64) for each in inputs)
    rows = random.choice(queries.shape[1], min(CHECKED_ROWS, queries.shape[1]), replace=False)
    scores = queries[:, rows] @ keys.swapaxes(1, 2) / queries.shape[-1] ** 0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    exact = (weights / weights.sum(-1, keepdims=True)) @ values
    return float(np.abs(attended[:, rows] - exact).max() / np.abs(exact).max())


def _longest(limit: str, options: argparse.Namespace) -> tuple[int, int]:
    """The longest sequences that fit the limit as written, and when they are cut to it."""

    def longest(fits: Callable[[Any], bool]) -> int:
        length = 128
        while fits(_report(2 * length, limit, options)):
            length *= 2
        return length

    with progress(f"The longest sequence for {limit}"):
        return (
            longest(lambda report: report.peak_before <= report.memory_limit),
            longest(lambda report: report.fits),
        )


def _report(length: int, limit: str, options: argparse.Namespace) -> Any:
    spec = tf.TensorSpec([options.heads, length, options.size], tf.float32)
    return tf_memsafe.explain(backward, spec, spec, spec, memory_limit=limit)


def _longest_rows(longest: dict[str, tuple[int, int]]) -> list[list[str]]:
    return [[limit, *(f"{length:,}" for length in both)] for limit, both in longest.items()]


def draw(found: dict[str, Any]) -> Figure:
    """The longest sequence by memory limit, of what the part "sweep" found."""
    title = f"Naive attention, forward and backward: {found['heads']} heads of {found['size']}, f32"
    figure, (axes,) = figures.panels(1, title)
    longest = found["longest"]
    places = np.arange(len(longest))
    for side, label in enumerate(("as written", "under the limit")):
        lengths = [both[side] for both in longest.values()]
        bars = axes.bar(places + 0.4 * side - 0.2, lengths, 0.4, label=label)
        axes.bar_label(bars, [f"{length:,}" for length in lengths], fontsize=8)
    axes.set_yscale("log", base=2)
    axes.set_xticks(places, list(longest))
    axes.set(xlabel="memory limit", ylabel="longest sequence that fits")
    axes.legend()
    return figure


if __name__ == "__main__":
    sys.exit(main())
