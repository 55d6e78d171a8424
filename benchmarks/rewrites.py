"""Time and peak of programs with each optimizer on and off, in turns: `rewrites.py [--quick] NAME`.

The constants that the rules choose by come from here; the names are optimizers', all by default.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from _timing import paired

from tf_memsafe import xla
from tf_memsafe.executable import Executable, compile_graph
from tf_memsafe.hlo.reader import read
from tf_memsafe.hlo.simplify import simplify
from tf_memsafe.rewrite.pipeline import NAMES, finish, rewrite

ROUNDS = 9
QUICK = "--quick" in sys.argv


class Case(NamedTuple):
    """A function and the types of its arguments, and the optimizer that is to make it better."""

    optimizer: str
    name: str
    function: Callable[..., Any]
    types: tuple[tf.TensorSpec, ...]


def floats(*shape: int, dtype: tf.DType = tf.float32) -> tf.TensorSpec:
    return tf.TensorSpec([size // 10 + 2 if QUICK and size > 99 else size for size in shape], dtype)


# --- the cases ----------------------------------------------------------------------------------


def squared_distance(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum((x[:, None] - y[None]) ** 2, -1)


def from_product(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    lengths = tf.reduce_sum(x**2, -1)[:, None] + tf.reduce_sum(y**2, -1)
    return tf.maximum(lengths - 2 * tf.matmul(x, y, transpose_b=True), 0)


def gradient(function: Callable[..., tf.Tensor]) -> Callable[..., Any]:
    def of_arguments(*arguments: tf.Tensor) -> Any:
        return tf.gradients(tf.reduce_sum(tf.sin(function(*arguments))), arguments)

    return of_arguments


def distances() -> Iterator[Case]:
    for dimension in (2, 3, 4, 5, 6, 8, 16, 32, 100, 784):
        types = floats(1000, dimension), floats(4000, dimension)
        yield Case("distance", f"difference, D={dimension}", squared_distance, types)
        yield Case("distance", f"product, D={dimension}", from_product, types)
    for dimension in (3, 20):
        types = floats(1000, dimension), floats(4000, dimension)
        yield Case("distance", f"gradient, D={dimension}", gradient(squared_distance), types)


def contractions() -> Iterator[Case]:
    for inner in (2, 3, 4, 6, 8, 32, 100):
        types = floats(1000, inner), floats(4000, inner)
        yield Case("contraction", f"x * y, inner size {inner}", summed_product, types)
    types = floats(8, 400, 60), floats(8, 500, 60), floats(8, 60)
    yield Case("contraction", "x * w * y, batches", weighted_product, types)


def summed_product(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(x[:, None] * y[None], -1)


def weighted_product(x: tf.Tensor, y: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(x[:, :, None] * w[:, None, None] * y[:, None], -1)


def products() -> Iterator[Case]:
    square, column = floats(1000, 1000), floats(1000, 1)
    yield Case("chain", "A B v", lambda a, b, v: a @ b @ v, (square, square, column))
    yield Case("chain", "A B C D E v", chain, (*(square,) * 5, column))
    narrow = floats(2000, 50), floats(50, 2000), floats(2000, 60)
    yield Case("chain", "A B C, narrow", lambda a, b, c: a @ b @ c, narrow)
    yield Case("chain", "2 (A B) v", lambda a, b, v: 2 * (a @ b) @ v, (square, square, column))
    yield Case("diagonal", "diag_part(A B)", diagonal_of_product, (square, square))


def chain(*matrices: tf.Tensor) -> tf.Tensor:
    product, *others = matrices
    for matrix in others:
        product = product @ matrix
    return product


def diagonal_of_product(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    return tf.linalg.diag_part(a @ b)


SEARCHED = 4_000_000
"""Elements, of all rows together, to look through for the top k."""


def searches() -> Iterator[Case]:
    for dtype in (tf.float32, tf.float64, tf.float16, tf.int32):
        for size in (1_000, 10_000, 100_000, 1_000_000):
            for k in (1, 10, 100):
                types = (floats(max(1, SEARCHED // size), size, dtype=dtype),)
                name = f"{dtype.name}, n={size}, k={k}"
                yield Case("top_k", name, lambda x, k=k: tf.math.top_k(x, k), types)
    for size in (16, 48, 128):
        types = (floats(SEARCHED // (10 * size), size, dtype=tf.float64),)
        yield Case("top_k", f"float64, n={size}, k=10", lambda x: tf.math.top_k(x, 10), types)
    rows = (floats(40, 100_000),)
    yield Case("top_k", "sort(x)[:10]", lambda x: tf.sort(x)[:, :10], rows)
    yield Case("top_k", "argsort(x)[-10:]", lambda x: tf.argsort(x)[:, -10:], rows)


def targets() -> Iterator[Case]:
    for inner in (2, 3):
        for rows in (1000, 4000):
            types = floats(rows, inner), floats(4000, inner)
            name = f"exp(x @ y.T), {rows} x {inner}"
            yield Case("target", name, lambda x, y: tf.exp(x @ tf.transpose(y)), types)
    for rows, length in ((4, 500_000), (20, 100_000), (32, 60_000), (20, 50_000)):
        for inner in (8, 64):
            types = floats(rows, inner), floats(inner, length)
            name = f"max(x @ y, -1), {rows} x {inner} x {length}"
            yield Case("target", name, lambda x, y: tf.reduce_max(x @ y, -1), types)
    for dtype in (tf.float32, tf.float64):
        for size in (100, 200, 500, 1000, 1500):
            types = (floats(size, size, dtype=dtype),)
            yield Case("target", f"cholesky, {dtype.name}, n={size}", factorised, types)

    for dtype in (tf.float32, tf.float64):
        for dimension in (3, 10, 30, 100):
            types = tuple(floats(rows, dimension, dtype=dtype) for rows in (1000, 4000))
            yield Case("target", f"L1, {dtype.name}, D={dimension}", nearest_in_l1, types)
        for dimension in (2, 5, 8):
            types = floats(20, dimension, dtype=dtype), floats(80_000, dimension, dtype=dtype)
            name = f"L1 of groups, {dtype.name}, D={dimension}"
            yield Case("target", name, nearest_of_groups, types)
        for dimension in (1, 3, 5, 8):
            shapes = (100, dimension), (20_000, dimension), (20_000, 1)
            types = tuple(floats(*shape, dtype=dtype) for shape in shapes)
            yield Case("target", f"L1 kernel @ v, {dtype.name}, D={dimension}", laplace, types)
            name = f"sums of L1 kernel, {dtype.name}, D={dimension}"
            yield Case("target", name, laplace_sums, types[:2])
    for length in (1_000, 5_000, 50_000):
        types = floats(2_000_000 // length, 3), floats(length, 3), floats(length, 1)
        yield Case("target", f"L1 kernel @ v, {length} columns", laplace, types)


def laplace(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.exp(-l1(x, y)) @ v


def laplace_sums(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.exp(-l1(x, y)), -1)


def l1(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.abs(x[:, None] - y[None]), -1)


def nearest_in_l1(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_min(l1(x, y), -1)


def nearest_of_groups(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_min(tf.reshape(l1(x, y), [x.shape[0], -1, 8]), -1)


def factorised(x: tf.Tensor) -> tf.Tensor:
    size = tf.cast(x.shape[0], x.dtype)
    return tf.linalg.cholesky(x @ tf.transpose(x) / size + tf.eye(x.shape[0], dtype=x.dtype))


CASES: tuple[Callable[[], Iterator[Case]], ...] = (
    distances,
    contractions,
    products,
    searches,
    targets,
)


# --- measuring ----------------------------------------------------------------------------------


def values(types: Sequence[tf.TensorSpec]) -> list[tf.Tensor]:
    normal = (tf.random.stateless_normal(type_.shape, (1, 2)) for type_ in types)
    return [
        tf.cast(array if type_.dtype.is_floating else 1e6 * array, type_.dtype)
        for array, type_ in zip(normal, types, strict=True)
    ]


def programs(case: Case) -> tuple[Executable, Executable, bool]:
    """The function's program with all optimizers and with all but one; whether that one fired."""
    function = tf.function(case.function, jit_compile=True, autograph=False)
    concrete = function.get_concrete_function(*case.types)
    graph = simplify(read(xla.hlo_module(concrete, list(case.types))))
    made, fired = [], set()
    for options in ({}, {case.optimizer: False}):
        enabled = dict.fromkeys(NAMES, True) | options
        rewritten = rewrite(graph, enabled)
        finished = finish(rewritten.graph, enabled).after(rewritten)
        fired |= {each.optimizer for each in finished.rewrites}
        made.append(compile_graph(finished.graph))
    return made[0], made[1], case.optimizer in fired


def line(case: Case) -> str:
    """The row of the table: the time and the peak with the optimizer off, and on."""
    ours, theirs, fired = programs(case)
    if not fired:
        return f"{case.name:36}{theirs.peak / 1e6:>9.1f}{'it leaves this alone':>30}"
    arguments = values(case.types)
    times = paired(lambda: ours(arguments), lambda: theirs(arguments), 1 if QUICK else ROUNDS)
    return (
        f"{case.name:36}{theirs.peak / 1e6:>9.1f}{ours.peak / 1e6:>8.1f}"
        f"{times.theirs * 1e3:>11.2f}{times.ours * 1e3:>9.2f}{times.ratio:>8.2f}"
    )


def main() -> None:
    names = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    shown = ""
    for case in (case for cases in CASES for case in cases()):
        if names and case.optimizer not in names:
            continue
        if case.optimizer != shown:
            shown = case.optimizer
            print(f"\n{shown:36}{'MB off':>9}{'on':>8}{'ms off':>11}{'on':>9}{'ratio':>8}")
        print(line(case), flush=True)


if __name__ == "__main__":
    main()
