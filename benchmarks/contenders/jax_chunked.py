"""JAX, chunked by hand with `lax.map` and `jax.checkpoint`, as its documentation advises."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

CHUNK = 4_000_000
"""Bytes of a chunk's matrix: of 1 to 256 MB, what is fastest here in most of this work."""

FEW_DIMENSIONS = 4
"""Up to here, distances are as fast as differences as they are by a matrix product, and exact."""

Call = Callable[[], Any]


def start() -> None:
    """Has XLA compile something."""
    jax.block_until_ready(jax.jit(jnp.exp)(1.0))


def arrays(data: dict[str, Any], *names: str) -> list[jax.Array]:
    if any(data[name].dtype == "float64" for name in names):
        jax.config.update("jax_enable_x64", True)
    return [jnp.asarray(data[name]) for name in names]


def ready(function: Callable[..., Any], *arguments: jax.Array) -> Call:
    compiled = jax.jit(function)
    return lambda: jax.block_until_ready(compiled(*arguments))


def chunks(length: int, row: int) -> int:
    """The number of chunks into which an axis is cut, each step of which takes `row` bytes.

    It divides the length.
    """
    most = max(1, CHUNK // row)
    return next(n for n in range(-(-length // most), length + 1) if length % n == 0)


def map_rows(function: Callable[[jax.Array], jax.Array], x: jax.Array, row: int) -> jax.Array:
    """`function` of chunks of x's rows, one after the other, put together again."""
    count = chunks(len(x), row)
    parts = jax.lax.map(function, x.reshape(count, -1, *x.shape[1:]))
    return jax.tree.map(lambda part: part.reshape(-1, *part.shape[2:]), parts)


def squared_distances(x: jax.Array, y: jax.Array) -> jax.Array:
    if x.shape[1] <= FEW_DIMENSIONS:
        # A sum of columns: XLA's reduction of [n, m, d] takes ten times as long.
        return sum((x[:, None, i] - y[None, :, i]) ** 2 for i in range(x.shape[1]))
    squares = (x**2).sum(-1)[:, None] + (y**2).sum(-1)
    return jnp.maximum(squares - 2 * x @ y.T, 0)


def knn(data: dict[str, Any], metric: str, neighbours: int) -> Call:
    assert metric == "euclidean"

    def search(queries: jax.Array, points: jax.Array) -> Any:
        def nearest(rows: jax.Array) -> Any:
            return jax.lax.top_k(-squared_distances(rows, points), neighbours)

        return map_rows(nearest, queries, points.dtype.itemsize * len(points))

    return ready(search, *arrays(data, "queries", "points"))


def kernel(name: str, x: jax.Array, y: jax.Array, lengthscales: jax.Array) -> jax.Array:
    squares = squared_distances(x / lengthscales, y / lengthscales)
    if name == "squared exponential":
        return jnp.exp(-0.5 * squares)
    r = jnp.sqrt(3 * jnp.maximum(squares, 1e-36))
    return (1 + r) * jnp.exp(-r)


def products(name: str, x: jax.Array, lengthscales: jax.Array, v: jax.Array) -> jax.Array:
    """K v. Chunks are made again for the gradient, so that nothing of them is kept."""

    @jax.checkpoint
    def product(rows: jax.Array) -> jax.Array:
        return kernel(name, rows, x, lengthscales) @ v

    return map_rows(product, x, x.dtype.itemsize * len(x))


def kernel_product(data: dict[str, Any], name: str) -> Call:
    return ready(partial(products, name), *arrays(data, "x", "lengthscales", "v"))


def kernel_gradient(data: dict[str, Any], name: str) -> Call:
    def value(x: Any, lengthscales: Any, variance: Any, u: Any, v: Any) -> Any:
        return (u * variance * products(name, x, lengthscales, v)).sum()

    def value_and_gradients(*arguments: jax.Array) -> Any:
        found, gradients = jax.value_and_grad(value, argnums=(0, 1, 2))(*arguments)
        return found, *gradients

    names = ("x", "lengthscales", "variance", "u", "v")
    return ready(value_and_gradients, *arrays(data, *names))


def attention(data: dict[str, Any]) -> Call:
    """Over heads, and chunks of queries in each."""

    def head(queries: jax.Array, keys: jax.Array, values: jax.Array) -> jax.Array:
        @jax.checkpoint
        def attend(rows: jax.Array) -> jax.Array:
            return jax.nn.softmax(rows @ keys.T / keys.shape[-1] ** 0.5) @ values

        return map_rows(attend, queries, keys.dtype.itemsize * len(keys))

    def loss(*arguments: jax.Array) -> Any:
        attended = jax.lax.map(lambda each: head(*each), arguments)
        return 0.5 * (attended**2).sum(), attended

    def forward_and_backward(*arguments: jax.Array) -> Any:
        gradients, attended = jax.grad(loss, argnums=(0, 1, 2), has_aux=True)(*arguments)
        return attended, *gradients

    return ready(forward_and_backward, *arrays(data, "queries", "keys", "values"))
