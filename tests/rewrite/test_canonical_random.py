"""Random programs of views, sums and products: in canonical form they compute the same."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from random import Random

import numpy as np
import pytest

from tests.hlo.ops.makers import dot
from tests.hlo.running import run
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.rewrite.canonical import CANONICAL
from tf_memsafe.rewrite.driver import apply
from tf_memsafe.rewrite.maths import filled, slice_of, sum_over, transpose

LARGEST = 2000
"""Elements of a value of a random program."""

PROGRAMS = 20
"""In one graph, which is compiled at once."""

STEPS = 14


class RandomProgram:
    """Whole numbers in f64, kept small, so that sums of them are exact in any order."""

    def __init__(self, random: Random, parameters: tuple[Node, ...]) -> None:
        self._random = random
        self._values = [*parameters]
        steps = [self._reshape, self._transpose, self._slice, self._broadcast, self._join]
        steps += [self._unary, self._binary, self._binary, self._sum, self._product, self._select]
        for _ in range(STEPS):
            made = random.choice(steps)(random.choice(self._values[-4:]))
            if made is not None and 0 < made.tensor.size <= LARGEST:
                self._values.append(made)

    @property
    def outputs(self) -> list[Node]:
        return self._values[-3:]

    def _reshape(self, x: Node) -> Node:
        """Splits an axis, merges two, or adds one of one element."""
        sizes = list(x.shape)
        for _ in range(self._random.randint(1, 2)):
            axis = self._random.randrange(len(sizes) + 1)
            if axis == len(sizes):
                sizes.append(1)
            elif sizes[axis] in (4, 6, 12) and self._random.random() < 0.6:
                sizes[axis : axis + 1] = [2, sizes[axis] // 2]
            elif axis + 1 < len(sizes):
                sizes[axis : axis + 2] = [prod(sizes[axis : axis + 2])]
        return build.reshape(x, sizes)

    def _transpose(self, x: Node) -> Node:
        return transpose(x, self._random.sample(range(x.tensor.rank), x.tensor.rank))

    def _slice(self, x: Node) -> Node:
        starts = [self._random.choice([0, 0, size // 2]) for size in x.shape]
        limits = [self._random.choice([size, size, (size + 1) // 2]) for size in x.shape]
        limits = [max(limit, start + 1) for start, limit in zip(starts, limits, strict=True)]
        strides = [self._random.choice([1, 1, 2]) for _ in x.shape]
        return slice_of(x, starts, limits, strides)

    def _broadcast(self, x: Node) -> Node:
        place = self._random.randint(0, x.tensor.rank)
        sizes = [*x.shape[:place], self._random.choice([1, 2, 3]), *x.shape[place:]]
        return build.broadcast(x, sizes, [axis for axis in range(len(sizes)) if axis != place])

    def _join(self, x: Node) -> Node | None:
        if not x.shape:
            return None
        parts = [self._like(x) for _ in range(self._random.randint(1, 2))]
        axis = self._random.randrange(x.tensor.rank)
        return build.emit("concatenate", [x, *parts], {"dimension": axis})

    def _unary(self, x: Node) -> Node:
        return build.emit(self._random.choice(["negate", "abs", "sign"]), (x,))

    def _binary(self, x: Node) -> Node:
        made = build.emit(
            self._random.choice(["add", "subtract", "multiply", "maximum"]), (x, self._like(x))
        )
        return build.emit("remainder", (made, filled(5, made, made.shape)))

    def _select(self, x: Node) -> Node:
        other = self._like(x)
        return build.emit("select", (build.compare(x, other, "LT"), other, x))

    def _sum(self, x: Node) -> Node | None:
        if not x.shape:
            return None
        axes = self._random.sample(range(x.tensor.rank), self._random.randint(1, x.tensor.rank))
        total = sum_over(x, axes)
        return build.emit("remainder", (total, filled(5, total, total.shape)))

    def _product(self, x: Node) -> Node | None:
        """Of two values along an axis of one size; other axes of one size may be the batch."""
        y = self._random.choice(self._values)
        pairs = [(a, b) for a, m in enumerate(x.shape) for b, n in enumerate(y.shape) if m == n]
        if not pairs:
            return None
        summed = self._random.choice(pairs)
        rest = [(a, b) for a, b in pairs if a != summed[0] and b != summed[1]]
        batch = [self._random.choice(rest)] if rest and self._random.random() < 0.4 else []
        lhs, rhs = (tuple(pair[side] for pair in batch) for side in (0, 1))
        made = build.emit("dot_general", (x, y), dot(lhs, rhs, summed[:1], summed[1:]))
        return build.emit("remainder", (made, filled(5, made, made.shape)))

    def _like(self, x: Node) -> Node:
        """Another value of this shape: one that is there, or one that repeats."""
        alike = [value for value in self._values if value.shape == x.shape]
        axes = [axis for axis in range(x.tensor.rank) if self._random.random() < 0.5]
        start = slice_of(
            x,
            [0] * x.tensor.rank,
            [size if axis in axes else 1 for axis, size in enumerate(x.shape)],
            [1] * x.tensor.rank,
        )
        narrow = build.reshape(start, [x.shape[axis] for axis in axes])
        makers: list[Callable[[], Node]] = [
            lambda: self._random.choice(alike),
            lambda: build.broadcast(narrow, x.shape, axes),
            lambda: filled(self._random.randint(-2, 2), x, x.shape),
        ]
        return self._random.choice(makers)()


@pytest.mark.parametrize("seed", range(5))
def test_random_programs_compute_the_same(seed: int) -> None:
    random = Random(seed)
    types = [TensorType("f64", shape) for shape in ((4, 6), (2, 3, 4), (6,), (12, 2))]
    parameters = build.region_parameters(types)
    programs = [RandomProgram(random, parameters).outputs for _ in range(PROGRAMS)]
    plain = [output for outputs in programs for output in outputs]
    graph = Graph(parameters, tuple(plain))
    result = apply(CANONICAL, graph)
    assert len(result.rewrites) > PROGRAMS
    assert [node.type for node in result.graph.outputs] == [node.type for node in plain]
    assert not apply(CANONICAL, result.graph).rewrites
    generator = np.random.default_rng(seed)
    arguments = [generator.integers(-2, 3, type_.shape).astype(np.float64) for type_ in types]
    both = run(Graph(parameters, (*plain, *result.graph.outputs)), arguments)
    for expected, got in zip(both[: len(plain)], both[len(plain) :], strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_reach_one_form_in_few_passes(seed: int) -> None:
    random = Random(1000 + seed)
    types = [TensorType("f64", shape) for shape in ((4, 6), (2, 3, 4), (6,), (12, 2))]
    parameters = build.region_parameters(types)
    outputs = [o for _ in range(10) for o in RandomProgram(random, parameters).outputs]
    graph = apply(CANONICAL, Graph(parameters, tuple(outputs))).graph
    # Views that cannot be merged are repeated for an operand or two.
    assert len(topological(graph.outputs)) <= 1.5 * len(topological(outputs))
