"""Plans of TensorFlow functions, in a form that tests can compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tests.programs import compiled
from tf_memsafe import xla
from tf_memsafe.hlo.node import Graph
from tf_memsafe.hlo.reader import read
from tf_memsafe.hlo.simplify import simplify
from tf_memsafe.split.arrange import LoopPlan
from tf_memsafe.split.plan import Plan, make_plan

THRESHOLD = 100_000
"""Bytes above which nothing exists whole in these plans."""


def floats(*shape: int) -> tf.TensorSpec:
    return tf.TensorSpec(shape, tf.float32)


def graph_for(function: Callable[..., Any], *specs: tf.TensorSpec) -> Graph:
    """The graph of a function for arguments of these types; nothing is allocated."""
    concrete = compiled(function).get_concrete_function(*specs)
    return simplify(read(xla.hlo_module(concrete, list(specs))))


def plan_for(function: Callable[..., Any], *specs: tf.TensorSpec) -> Plan:
    return make_plan(graph_for(function, *specs), THRESHOLD)


def sinks(loop: LoopPlan) -> list[tuple[tuple[int, ...], int | str]]:
    """What a loop computes: the shape, and the axis that its chunks are joined along.

    Chunks that are combined instead (summed, maximum of, ...) show as "combined".
    """
    return [
        (node.results[0].shape, "combined" if way.cut is None else way.cut.axis)
        for node, way in loop.sinks.items()
    ]
