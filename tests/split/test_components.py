"""The parts of a program that are cut without regard to each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tests.split.functions import attention, gradient_of
from tests.split.planning import THRESHOLD, floats, graph_for
from tf_memsafe.split.components import components
from tf_memsafe.split.program import Program

POINTS = floats(400, 3)


def kernel(x: tf.Tensor) -> tf.Tensor:
    return tf.exp(-tf.reduce_sum((x[:, None] - x[None]) ** 2, -1))


def side_by_side(x: tf.Tensor) -> Any:
    return tf.reduce_sum(kernel(x)), tf.reduce_max(kernel(tf.sort(x, 0)))


def one_matrix_twice(x: tf.Tensor) -> Any:
    matrix = kernel(x)
    return tf.reduce_sum(matrix, 0), tf.reduce_max(tf.sin(matrix), 1)


def parts_of(function: Callable[..., Any], *specs: tf.TensorSpec) -> list[Program]:
    return components(Program(graph_for(function, *specs), THRESHOLD))


def test_matrices_that_share_no_axis_are_two_parts() -> None:
    assert len(parts_of(side_by_side, POINTS)) == 2


def test_what_is_made_of_one_matrix_is_one_part() -> None:
    (part,) = parts_of(one_matrix_twice, POINTS)
    large = [node for node in part.nodes if node.type.bytes > THRESHOLD]
    assert {node.name for node in large} >= {"exponential", "sine"}


def test_attention_and_its_gradient_are_one_part() -> None:
    assert len(parts_of(gradient_of(attention), *(floats(4, 500, 16),) * 3)) == 1


def test_a_small_program_has_no_parts() -> None:
    assert parts_of(kernel, floats(10, 3)) == []
