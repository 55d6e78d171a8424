"""Loops with gradients, as TensorFlow makes them and made by hand, for the tests of checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tests.programs import gradients
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node, Region
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.types import TensorType

STEPS = 7  # a prime: no segment of more than one step divides it

# --- loops over a matrix x, with weights y ---


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


def two_states(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """A gated loop with two states, each of which depends on the other."""

    def body(i: tf.Tensor, c: tf.Tensor, h: tf.Tensor) -> tuple[tf.Tensor, ...]:
        gate = tf.sigmoid(h @ y)
        c = gate * c + (1 - gate) * tf.tanh(h)
        return i + 1, c, tf.sigmoid(c) * h

    start = (0, x, y)
    loop = tf.while_loop(lambda i, *_: i < STEPS, body, start, maximum_iterations=STEPS)
    return loop[1] * loop[2]


def one_after_the_other(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Two loops with two gradients."""
    return power(power(x, y), y)


def branching(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """A branch in each step, on data."""

    def body(i: tf.Tensor, v: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return i + 1, tf.cond(v[0, 0] > 0, lambda: tf.sin(v @ y), lambda: tf.cos(v) * x)

    return tf.while_loop(lambda i, _: i < STEPS, body, (0, x), maximum_iterations=STEPS)[1]


def nested(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """A loop of 3 steps in each step."""
    return tf.while_loop(
        lambda i, _: i < STEPS,
        lambda i, v: (i + 1, power(v, y, 3)),
        (0, x),
        maximum_iterations=STEPS,
    )[1]


# --- loops over rows, matrices or numbers, with weights w ---


def cell(h: tf.Tensor, row: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return tf.tanh(row + h @ w)


def outputs(rows: tf.Tensor, w: tf.Tensor, reverse: bool = False) -> tf.Tensor:
    """The states of a recurrent network after each step."""
    return tf.scan(lambda h, row: cell(h, row, w), rows, tf.zeros_like(w), reverse=reverse)


def recurrent(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """All states count, as they are."""
    return outputs(rows, w)


def last_output(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return outputs(rows, w)[-1]


def some_outputs(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return tf.sin(outputs(rows, w)[2:-1])


def start_and_outputs(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return tf.sin(tf.concat([w[None], outputs(rows, w)], 0))


def batch_first(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """All outputs count, with the axis of the steps as the second."""
    return tf.sin(tf.transpose(outputs(rows, w), [1, 0, 2])) @ w


def norm_of_outputs(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """The gradient of each output depends on all of them."""
    return tf.sqrt(tf.reduce_sum(outputs(rows, w) ** 2))


def classified(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """A dense layer and cross entropies on all outputs."""
    logits = tf.reshape(outputs(rows, w), [-1, w.shape[1]]) @ w
    labels = tf.range(logits.shape[0]) % w.shape[1]
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def layers(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return outputs(outputs(rows, w), w)[-1]


def both_ways(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """A network that goes through the rows from both ends, and one on top of it."""
    there, back = outputs(rows, w), outputs(rows, w, reverse=True)
    return tf.foldl(lambda h, pair: cell(h, pair[0] - pair[1], w), (there, back), tf.zeros_like(w))


def folded_right(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return tf.foldr(lambda h, row: cell(h, row, w), rows, tf.zeros_like(w))


def stateless(rows: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """What is stacked depends on the step's row alone, not on the state."""
    return tf.foldl(lambda total, row: total + x * tf.exp(row + x), rows, tf.zeros_like(x))


def mapped(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return tf.map_fn(lambda row: tf.tanh(tf.tanh(row * w) @ w), rows)


def written(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """Every state: reads one TensorArray and writes another."""
    steps = rows.shape[0]
    taken = tf.TensorArray(rows.dtype, steps).unstack(rows)
    given = tf.TensorArray(rows.dtype, steps, element_shape=w.shape)

    def body(i: tf.Tensor, h: tf.Tensor, given: tf.TensorArray) -> tuple[Any, ...]:
        h = cell(h, taken.read(i), w)
        return i + 1, h, given.write(i, h)

    start = (0, tf.zeros_like(w), given)
    loop = tf.while_loop(lambda i, *_: i < steps, body, start, maximum_iterations=steps)
    return loop[2].stack()


def arrays(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    return tf.sin(written(rows, w))


@tf.autograph.to_graph
def python_loop(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """A `for` over tf.range, which AutoGraph makes a loop."""
    h = tf.zeros_like(w)
    for i in tf.range(rows.shape[0]):
        h = cell(h, rows[i], w)
    return h


def recomputed(rows: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """`tf.recompute_grad` in the loop: what is stacked is the state alone."""
    step = tf.recompute_grad(lambda h, row: tf.tanh(cell(h, row, w) @ w))
    return tf.foldl(step, rows, tf.zeros_like(w))


def two_gradients(x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
    """Two loops go back through one."""
    with tf.GradientTape(persistent=True) as tape:
        tape.watch((x, y))
        value = power(x, y)
        first, second = tf.reduce_sum(value), tf.reduce_sum(value**2)
    return [*tape.gradient(first, (x, y)), *tape.gradient(second, (x, y))]


def second_order(x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
    """The gradient of a gradient: four loops over the same steps."""
    with tf.GradientTape() as outer:
        outer.watch((x, y))
        with tf.GradientTape() as tape:
            tape.watch(y)
            value = tf.reduce_sum(power(x, y))
        size = tf.reduce_sum(tape.gradient(value, y) ** 2)
    return list(outer.gradient(size, (x, y)))


ON_MATRICES = (power, counting, two_states, one_after_the_other, branching, nested)
ON_ROWS = (
    recurrent,
    last_output,
    some_outputs,
    start_and_outputs,
    batch_first,
    norm_of_outputs,
    classified,
    layers,
    both_ways,
    folded_right,
    stateless,
    mapped,
    arrays,
    python_loop,
    recomputed,
)


def differentiated(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with its gradients, if it does not compute them itself."""
    return function if function in (two_gradients, second_order) else gradients(function)


# --- looking at loops ---


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
