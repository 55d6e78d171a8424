"""Finds out, in a moment, whether this TensorFlow still does what tf_memsafe needs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import tensorflow as tf

from tf_memsafe import compiled_once, xla
from tf_memsafe.errors import IncompatibleTensorFlowError
from tf_memsafe.hlo.reader import read
from tf_memsafe.hlo.writer import write
from tf_memsafe.source import find_operation
from tf_memsafe.xla import ConcreteFunction

SUPPORTED = ">=2.21,<2.22"
"""The TensorFlow versions that the tests run with, as setup.cfg states them."""

PROBE_BYTES = 4 * 3 + 4 * 3
"""Of the probe's argument and result: three f32 each."""


@cache
def self_check() -> None:
    """Runs a small function through each non-public part of TensorFlow that is used; once.

    Raises:
        IncompatibleTensorFlowError: naming the part that has changed.
    """
    # In the scope because a limit may be set while a function is being traced.
    with compiled_once.requested(), tf.init_scope():
        for part, check in CHECKS.items():
            try:
                works = check(_probe())
            except Exception as error:
                raise IncompatibleTensorFlowError(_message(part)) from error
            if not works:
                raise IncompatibleTensorFlowError(_message(part))


def _message(part: str) -> str:
    return (
        f"TensorFlow {tf.__version__} has changed {part}, so a memory limit cannot be kept. "
        f"tf_memsafe supports tensorflow{SUPPORTED}: install one of these."
    )


def _probe() -> ConcreteFunction:
    called = tf.function(tf.sin, autograph=False)

    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([3])], autograph=False)
    def probe(x: tf.Tensor) -> tf.Tensor:
        return called(x) + x

    return probe.get_concrete_function()


SPECS = (tf.TensorSpec([3]),)


def _reads(probe: ConcreteFunction) -> bool:
    graph = read(xla.hlo_module(probe, SPECS))
    return "stablehlo.sine" in write(graph) and xla.must_compile(probe)


def _measures(probe: ConcreteFunction) -> bool:
    buffers = xla.measure(probe, SPECS)
    return buffers.bytes_of("argument") + buffers.bytes_of("result") == PROBE_BYTES


def _runs(probe: ConcreteFunction) -> bool:
    text = write(read(xla.hlo_module(probe, SPECS)))
    program = xla.stablehlo_function(text, SPECS, SPECS)
    given = tf.constant([0.0, 1.0, 2.0])
    (result,) = xla.call_inference(program, [given])
    (expected,) = xla.call_inference(probe, [given])
    return bool(tf.reduce_all(tf.abs(result - expected) < 1e-6))


def _finds_lines(probe: ConcreteFunction) -> bool:
    operation = find_operation(probe.graph, "PartitionedCall/Sin")
    return operation is not None and operation.type == "Sin"


CHECKS: dict[str, Callable[[ConcreteFunction], bool]] = {
    "how a function's XLA program is read": _reads,
    "XLA's buffer assignment": _measures,
    "how StableHLO text is run": _runs,
    "how the operations of a function are named": _finds_lines,
}
"""Each part, and whether it works for the probe."""
