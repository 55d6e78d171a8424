"""The driver applies rules to a fixpoint, keeps sources, and reports what it did."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.hlo.running import graph_of, run
from tests.hlo.test_verify import counting_loop
from tests.rewrite.rewriting import rules, shown
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node, Region, Source
from tf_memsafe.hlo.rebuild import rebuild
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.hlo.verify import InvalidGraphError, verify
from tf_memsafe.rewrite.driver import apply, apply_everywhere
from tf_memsafe.rewrite.maths import sum_over
from tf_memsafe.rewrite.rule import Optimizer, Outcome, Skip, Uses, rule, rule_with_uses

VECTOR = TensorType("f32", (8,))
SOURCE = Source("Tan", "model/tan")


@rule("tan")
def tangent(node: Node) -> Outcome:
    """tan(x) => sin(x) / cos(x)"""
    (x,) = node.operands
    return build.emit("divide", (build.emit("sine", (x,)), build.emit("cosine", (x,))))


@rule("sine")
def refused_sine(node: Node) -> Outcome:
    """sin(x) => x"""
    return Skip("x may be large")


@rule("negate")
def shorter(node: Node) -> Outcome:
    """-(-x) => x"""
    inner = node.operands[0]
    return inner.operands[0] if inner.name == "negate" else None


def parameter() -> Node:
    return build.region_parameters([VECTOR])[0]


def negated(x: Node, times: int) -> Node:
    for _ in range(times):
        x = build.emit("negate", (x,))
    return x


def test_a_rule_fires_and_what_it_made_is_not_tried_twice() -> None:
    x = parameter()
    result = apply(Optimizer("trigonometry", (tangent,)), Graph((x,), (build.emit("tan", (x,)),)))
    assert shown(result.graph) == [
        "graph(%1: f32[8]):",
        "%2 = sine(%1) : f32[8]",
        "%3 = cosine(%1) : f32[8]",
        "%4 = divide(%2, %3) : f32[8]",
        "return %4",
    ]
    (fired,) = result.rewrites
    assert (fired.optimizer, fired.rule) == ("trigonometry", "tangent")
    assert fired.summary == "tan(x) => sin(x) / cos(x)"


def test_new_nodes_have_the_source_of_what_they_replace() -> None:
    x = parameter()
    node = build.emit("tan", (x,), source=SOURCE)
    result = apply(Optimizer("trigonometry", (tangent,)), Graph((x,), (node,)))
    (output,) = result.graph.outputs
    assert [new.source for new in (output, *output.operands)] == [SOURCE] * 3
    assert x.source is None
    assert result.rewrites[0].node.source is SOURCE


def test_a_fixpoint_is_reached() -> None:
    x = parameter()
    result = apply(Optimizer("signs", (shorter,)), Graph((x,), (negated(x, 6), negated(x, 7))))
    assert result.graph.outputs == (x, negated(x, 1))
    assert set(rules(result)) == {"shorter"}


def test_the_bytes_of_the_largest_tensor_before_and_after() -> None:
    @rule("reduce")
    def constant_sum(node: Node) -> Outcome:
        """sum(broadcast(x)) => n * x"""
        (x,) = node.operands[0].operands
        return build.multiply(x, build.constant(100, x.tensor))

    (x,) = build.region_parameters([TensorType("f32", (5,))])
    wide = build.broadcast(x, (5, 100), (0,))
    result = apply(Optimizer("sums", (constant_sum,)), Graph((x,), (sum_over(wide, (1,)),)))
    (fired,) = result.rewrites
    assert (fired.bytes_before, fired.bytes_after) == (2000, 20)


def test_refusals_say_why_once() -> None:
    x = parameter()
    graph = Graph((x,), (build.emit("tan", (x,)),))
    result = apply(Optimizer("trigonometry", (tangent, refused_sine)), graph)
    (refusal,) = result.refusals
    assert (refusal.rule, refusal.reason) == ("refused_sine", "x may be large")
    assert refusal.node.name == "sine"


def test_regions_are_left_alone_but_their_captures_follow() -> None:
    x = parameter()
    graph = Graph((x,), (counting_loop(negated(x, 2))[1],))
    assert apply(Optimizer("signs", (shorter,)), graph).graph == Graph(
        (x,), (counting_loop_like(graph, x),)
    )


def counting_loop_like(graph: Graph, x: Node) -> Node:
    """The loop of a graph with x in place of what its body captures."""
    loop = graph.outputs[0].operands[0]
    (captured,) = loop.regions[1].captures
    (output,) = rebuild(graph.outputs, {captured: x})
    return output


def test_who_uses_a_value_is_known() -> None:
    seen: dict[str, Node | None] = {}

    @rule_with_uses("sine", "cosine", "tanh")
    def look(node: Node, uses: Uses) -> Outcome:
        """x => x"""
        seen[node.name] = uses.only_user(node)
        return None

    x = parameter()
    once, twice, result = (build.emit(name, (x,)) for name in ("sine", "cosine", "tanh"))
    user = build.add(once, negated(result, 1))
    graph = Graph((x,), (user, build.multiply(twice, twice), result))
    apply(Optimizer("look", (look,)), graph)
    assert seen == {"sine": user, "cosine": None, "tanh": None}


def test_rules_that_undo_each_other_are_found() -> None:
    @rule("negate")
    def around(node: Node) -> Outcome:
        """-x => -(-(-x))"""
        return negated(node, 2)

    x = parameter()
    with pytest.raises(RuntimeError, match="the rules of circle undo each other"):
        apply(Optimizer("circle", (shorter, around)), Graph((x,), (negated(x, 1),)))


def test_the_graph_is_verified() -> None:
    @rule("tan")
    def wrong(node: Node) -> Outcome:
        """tan(x) => a parameter of nobody"""
        return parameter()

    x = parameter()
    with pytest.raises(InvalidGraphError):
        apply(Optimizer("wrong", (wrong,)), Graph((x,), (build.emit("tan", (x,)),)))


def test_a_rule_says_what_it_does() -> None:
    with pytest.raises(ValueError, match="before => after"):

        @rule("tan")
        def silent(node: Node) -> Outcome:
            """Does things."""
            return None


# --- inside loops and branches ------------------------------------------------------------------

SIGNS = Optimizer("signs", (shorter,))


def branch_in_a_loop(x: tf.Tensor) -> tf.Tensor:
    """Three times, x, or -x if the sum of what there is so far is not positive."""

    def step(i: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        def minus_minus() -> tf.Tensor:
            return tf.negative(tf.negative(x))

        positive = tf.reduce_sum(total) > 0
        return i + 1, total + tf.cond(positive, minus_minus, lambda: -x)

    return tf.while_loop(lambda i, _: i < 3, step, (0, x))[1]


def test_what_is_inside_loops_and_branches_is_rewritten() -> None:
    x = np.array([1.0, 2.0], np.float32)
    graph = graph_of(branch_in_a_loop, x)
    assert apply(SIGNS, graph).graph is graph
    result = apply_everywhere(SIGNS, graph)
    verify(result.graph)
    assert rules(result) == ["shorter"]
    assert result.rewrites[0].node.source is not None
    (found,), (expected,) = run(result.graph, [x]), run(graph, [x])
    np.testing.assert_array_equal(found, expected)


def test_a_rule_does_not_look_through_a_capture() -> None:
    x = parameter()
    once = negated(x, 1)
    condition = build.compare(build.index(0), build.index(1), "LT")
    inside = Region((), (negated(once, 1),), (once,))
    outside = Region((), (once,), (once,))
    branch = build.emit("if", (condition,), regions=(inside, outside))
    graph = Graph((x,), (branch,))
    assert apply_everywhere(SIGNS, graph).graph == graph


def test_nothing_is_done_where_no_rule_has_its_op() -> None:
    x = parameter()
    graph = Graph((x,), (counting_loop(x)[1],))
    result = apply_everywhere(SIGNS, graph)
    assert result.graph is graph
    assert not result.rewrites


def test_what_happened_earlier_comes_first() -> None:
    x = parameter()
    both = Graph((x,), (negated(x, 2), build.emit("tan", (x,))))
    first = apply(SIGNS, both)
    second = apply(Optimizer("trigonometry", (tangent, refused_sine)), first.graph)
    together = second.after(first)
    assert together.graph is second.graph
    assert rules(together) == ["shorter", "tangent"]
    assert [refusal.rule for refusal in together.refusals] == ["refused_sine"]
