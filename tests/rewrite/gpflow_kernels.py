"""GPflow's kernels, points for them, and their values and gradients as graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from gpflow import kernels
from gpflow.kernels import Kernel
from gpflow.kernels.categorical import Categorical

from tf_memsafe import xla
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.reader import read

DIMENSION = 7
"""Of the points: enough for matrix products to be faster than differences."""

COUNTS = (50, 40)
"""Of points X and X2."""


@dataclass(frozen=True)
class Case:
    """A kernel, and what is expected of it.

    fires: the rules, canonical ones aside, that fire for K(X, X2) with its gradients.
    left: why a tensor of all differences is left; None if none is.
    dimension: of a point. labels: how many labels the last coordinate has, if it is one.
    matrices: how many matrices [n, m] there are at once, as the results have them.
    """

    make: Callable[[], Kernel]
    fires: frozenset[str] = frozenset()
    left: str | None = None
    dimension: int = DIMENSION
    labels: int = 0
    matrices: int = 1


def isotropic() -> Kernel:
    return kernels.SquaredExponential(lengthscales=1.3)


def categorical() -> Kernel:
    kernel = Categorical(
        kernels.SquaredExponential(active_dims=slice(0, 6)),
        kernels.SquaredExponential(active_dims=[6]),
        num_labels=3,
    )
    kernel._Z_deltas.assign([[0.5], [0.7]])  # they are random to begin with
    return kernel


def scales(value: float = 1.5) -> list[float]:
    return [value + 0.1 * axis for axis in range(DIMENSION)]


DIFFERENCES = frozenset({"sum_of_differences"})
ROOT = frozenset({"square_of_root"})

CASES: dict[str, Case] = {
    "SquaredExponential": Case(isotropic),
    "SquaredExponential, ARD": Case(lambda: kernels.SquaredExponential(lengthscales=scales())),
    "Matern12": Case(lambda: kernels.Matern12(lengthscales=scales())),
    "Matern32": Case(lambda: kernels.Matern32(lengthscales=scales())),
    "Matern52": Case(lambda: kernels.Matern52(lengthscales=scales()), ROOT),
    "Exponential": Case(kernels.Exponential),
    "RationalQuadratic": Case(kernels.RationalQuadratic),
    "active dimensions": Case(lambda: kernels.SquaredExponential(active_dims=slice(0, 6))),
    "Cosine": Case(lambda: kernels.Cosine(lengthscales=scales()), DIFFERENCES),
    "Periodic": Case(lambda: kernels.Periodic(isotropic(), period=scales()), DIFFERENCES),
    "Periodic, Matern52": Case(
        lambda: kernels.Periodic(kernels.Matern52()),
        left="the differences are not squared, but go through abs",
    ),
    "Linear": Case(kernels.Linear),
    "Linear, ARD": Case(lambda: kernels.Linear(variance=scales())),
    "Polynomial": Case(kernels.Polynomial),
    "ArcCosine 0": Case(lambda: kernels.ArcCosine(0, weight_variances=scales())),
    "ArcCosine 1": Case(lambda: kernels.ArcCosine(1)),
    "ArcCosine 2": Case(lambda: kernels.ArcCosine(2, weight_variances=scales())),
    "Coregion": Case(lambda: kernels.Coregion(output_dim=4, rank=2), dimension=1, labels=4),
    "Constant": Case(kernels.Constant),
    "White": Case(kernels.White),
    "Sum": Case(lambda: isotropic() + kernels.Linear() + kernels.White()),
    "Product": Case(lambda: isotropic() * kernels.Periodic(isotropic()), DIFFERENCES),
    "ChangePoints": Case(
        lambda: kernels.ChangePoints(
            [isotropic(), kernels.Matern32(), kernels.Cosine()], locations=[-0.5, 0.5]
        ),
        dimension=1,
    ),
    "Convolutional": Case(
        lambda: kernels.Convolutional(isotropic(), [4, 4], [3, 3]), dimension=16, matrices=16
    ),
    "Categorical": Case(categorical, labels=3),
    "SharedIndependent": Case(lambda: kernels.SharedIndependent(isotropic(), 3), matrices=9),
    "SeparateIndependent": Case(
        lambda: kernels.SeparateIndependent([isotropic(), kernels.Matern32()]), matrices=4
    ),
    "LinearCoregionalization": Case(
        lambda: kernels.LinearCoregionalization(
            [isotropic(), kernels.Matern32()], W=np.arange(6.0).reshape(3, 2) / 4
        ),
        matrices=9,
    ),
}


def points(case: Case, count: int, batch: Sequence[int] = ()) -> tf.Tensor:
    """Points of the case's dimension, in f64; the last coordinate is a label if it has labels."""
    generator = np.random.default_rng(count)
    values = generator.normal(size=(*batch, count, case.dimension))
    if case.labels:
        values[..., -1] = generator.integers(0, case.labels, (*batch, count))
    return tf.constant(values)


Values = Callable[..., list[tf.Tensor]]

VALUES: dict[str, tuple[int, Callable[[Kernel], Callable[..., tf.Tensor]]]] = {
    "K(X, X2)": (2, lambda kernel: lambda x, x2: kernel(x, x2, full_cov=True)),
    "K(X)": (1, lambda kernel: lambda x: kernel(x, full_cov=True)),
    "K_diag(X)": (1, lambda kernel: lambda x: kernel(x, full_cov=False)),
}
"""How many arguments each takes, and what it is of a kernel."""


def with_gradients(kernel: Kernel, function: Callable[..., tf.Tensor]) -> Values:
    """A value, and the gradients of a scalar of it to the points and the hyperparameters."""

    def compute(*arguments: tf.Tensor) -> list[tf.Tensor]:
        sources = [*arguments, *kernel.trainable_variables]
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            value = function(*arguments)
            scalar = tf.reduce_sum(tf.sin(value))
        gradients = [g for g in tape.gradient(scalar, sources) if g is not None]
        return [value, *map(tf.convert_to_tensor, gradients)]

    return compute


def traced(function: Values, arguments: Sequence[tf.Tensor]) -> tuple[Graph, list[Any], Any]:
    """A function's graph, all of its arguments, hyperparameters included, and itself compiled."""
    compiled = tf.function(function, jit_compile=True, autograph=False)
    concrete = compiled.get_concrete_function(*arguments)
    specs = [tf.TensorSpec(each.shape, each.dtype) for each in arguments]
    values = {id(variable.handle): variable.value() for variable in concrete.graph.variables}
    captured = [values.get(id(tensor), tensor) for tensor in concrete.captured_inputs]
    return read(xla.hlo_module(concrete, specs)), [*arguments, *captured], compiled


def largest(graph: Graph) -> int:
    """Elements of the largest tensor."""
    return max(type_.size for node in topological(graph.outputs) for type_ in node.results)
