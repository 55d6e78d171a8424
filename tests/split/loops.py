"""Loops with gradients, as TensorFlow makes them and made by hand, for the tests of checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import tensorflow as tf

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node, Region
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.types import TensorType

STEPS = 7  # a prime: no segment of more than one step divides it


def power(x: tf.Tensor, y: tf.Tensor, steps: int = STEPS) -> tf.Tensor:
    """A product in which each step's gradient needs the state before it."""
    return tf.while_loop(
        lambda i, _: i < steps,
        lambda i, v: (i + 1, tf.sin(v) * (y + x)),
        (0, x),
        maximum_iterations=steps,
    )[1]


def counting(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Starts at 3, and computes with the counter."""
    return tf.while_loop(
        lambda i, _: i < STEPS + 3,
        lambda i, v: (i + 1, tf.sin(v) * y * tf.cast(i, v.dtype)),
        (3, x),
        maximum_iterations=STEPS,
    )[1]


def recurrent(rows: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """A recurrent network whose weights are captured, all of whose states are returned."""
    return tf.scan(lambda h, row: tf.tanh(row + h @ x), rows, x)


def two_states(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """A gated loop with two states, each of which depends on the other."""

    def body(i: tf.Tensor, c: tf.Tensor, h: tf.Tensor) -> tuple[tf.Tensor, ...]:
        gate = tf.sigmoid(h @ y)
        c = gate * c + (1 - gate) * tf.tanh(h)
        return i + 1, c, tf.sigmoid(c) * h

    start = (0, x, y)
    loop = tf.while_loop(lambda i, *_: i < STEPS, body, start, maximum_iterations=STEPS)
    return loop[1] * loop[2]


def stateless(rows: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """What is stacked depends on the step's row alone, not on the state."""
    return tf.foldl(lambda total, row: total + x * tf.exp(row + x), rows, tf.zeros_like(x))


def one_after_the_other(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Two loops with two gradients."""
    return power(power(x, y), y)


def whiles(region: Graph | Region) -> Iterator[Node]:
    """The loops of one scope, in order."""
    captures = region.captures if isinstance(region, Region) else ()
    results = region.results if isinstance(region, Region) else region.outputs
    return (n for n in topological(results, set(captures)) if n.name == "while")


def stack_shapes(loop: Node, rank: int = 3) -> list[tuple[int, ...]]:
    """The shapes in a loop's state that have this many axes."""
    return [result.shape for result in loop.results if len(result.shape) == rank]


@dataclass(frozen=True, kw_only=True)
class HandMade:
    """A loop that doubles x, stacks its state, and a loop that sums the stack from its end.

    Each field, changed, makes the stack one that has to be kept.
    """

    trips: int = STEPS
    trips_back: int = STEPS
    write_at: Callable[[Node], Node] = lambda i: i
    read_at: Callable[[Node], Node] = lambda j: build.subtract(build.index(STEPS - 1), j)
    read_size: int = 1
    growth: int = 1
    change: Callable[[Node], Node] = lambda x: build.add(x, x)
    returns_stack: bool = False
    uses: Callable[[Node], Sequence[Node]] = lambda stack: ()
    keep_going: Callable[[Node], Sequence[Node]] = lambda x: ()

    def graph(self) -> Graph:
        (x,) = build.region_parameters([TensorType("f32", (4,))])
        zeros = build.zeros(TensorType("f32", (STEPS, 4)))
        _, last, stack = self._loop((x, zeros), self._forward, self.trips)
        total, read = self._loop((build.zeros(x.tensor), stack), self._back, self.trips_back)[1:]
        extra = [read] if self.returns_stack else []
        return Graph((x,), (last, total, *extra, *self.uses(stack)))

    def _loop(
        self, initial: Sequence[Node], body: Callable[..., Sequence[Node]], trips: int
    ) -> tuple[Node, ...]:
        state = (build.index(0), *initial)
        types = [node.tensor for node in state]
        tested = build.region_parameters(types)
        test = build.compare(tested[0], build.index(trips), "LT")
        for more in self.keep_going(tested[1]):
            test = build.emit("and", (test, more))
        i, *values = parameters = build.region_parameters(types)
        results = (build.add(i, build.index(self.growth)), *body(i, *values))
        return build.while_loop(state, Region(tested, (test,)), Region(parameters, results))

    def _forward(self, i: Node, x: Node, stack: Node) -> Sequence[Node]:
        entry = build.reshape(x, (1, 4))
        starts = (self.write_at(i), build.index(0))
        return self.change(x), build.dynamic_update_slice(stack, entry, starts)

    def _back(self, j: Node, total: Node, stack: Node) -> Sequence[Node]:
        starts = (self.read_at(j), build.index(0))
        read = build.dynamic_slice(stack, starts, (self.read_size, 4))
        first = build.dynamic_slice(read, (build.index(0), build.index(0)), (1, 4))
        return build.add(total, build.reshape(first, (4,))), stack
