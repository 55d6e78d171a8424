"""The only file that touches TensorFlow's non-public API; `self_check` tests every use of it.

What is used, and of which TensorFlow: the HLO of a concrete function and its buffer assignment
(`compiler_ir.from_concrete_function`), the protobuf classes that read them, the op that runs
StableHLO text (`XlaCallModule`), and the method that every call of a tf.function goes through
(`ConcreteFunction._call_flat`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla as tf_xla
from tensorflow.compiler.xla.service import hlo_pb2
from tensorflow.python.eager import record
from tensorflow.python.eager.polymorphic_function import compiler_ir
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
from tensorflow.python.ops import gradients_util, resource_variable_ops

STABLEHLO_VERSION = 9
"""The version of XlaCallModule's calling convention that the text is written for."""

COMPILE_ATTRIBUTE = "_XlaMustCompile"


class XlaCompileError(Exception):
    """XLA cannot compile this function; the message is XLA's own."""


@dataclass(frozen=True)
class Allocation:
    """One buffer that XLA reserves for a call: its bytes and what they hold."""

    bytes: int
    kind: str  # "argument", "result", "constant" or "temporary"
    parameter: int | None = None


@dataclass(frozen=True)
class HeapEvent:
    """A step of XLA's memory timeline: `instruction` takes (or frees, if negative) bytes."""

    instruction: str
    bytes: int


@dataclass(frozen=True)
class BufferAssignment:
    """What a compiled function needs at once, as XLA itself lays it out."""

    allocations: tuple[Allocation, ...]
    timeline: tuple[HeapEvent, ...]

    @property
    def peak(self) -> int:
        """Bytes of arguments, results, constants and temporaries together."""
        return sum(allocation.bytes for allocation in self.allocations)

    def bytes_of(self, kind: str) -> int:
        return sum(a.bytes for a in self.allocations if a.kind == kind)


def name_of(function: ConcreteFunction) -> str:
    """The name that the user gave the function."""
    name = function.name.decode() if isinstance(function.name, bytes) else str(function.name)
    bare = name.removeprefix("__inference_").rstrip("0123456789").rstrip("_")
    return bare or name


def result_specs(function: ConcreteFunction) -> list[tf.TensorSpec]:
    """The type of each flat result; `function.outputs` may hold what a gradient needs as well."""
    return [tf.TensorSpec(t.shape, t.dtype) for t in function.function_type.flat_outputs]


def must_compile(function: ConcreteFunction) -> bool:
    """Whether the function was made with `jit_compile=True`."""
    attribute = function.function_def.attr.get(COMPILE_ATTRIBUTE)
    return attribute is not None and attribute.b


def hlo_module(function: ConcreteFunction, specs: Sequence[tf.TensorSpec]) -> Any:
    """The function's HLO (an HloModuleProto) for arguments of exactly these shapes.

    Raises XlaCompileError when XLA cannot compile the function.
    """
    return hlo_pb2.HloModuleProto.FromString(_stage(function, specs, "hlo_serialized"))


def measure(function: ConcreteFunction, specs: Sequence[tf.TensorSpec]) -> BufferAssignment:
    """Compiles without running, and returns the buffers a call would need. Allocates none of them.

    Raises XlaCompileError when XLA cannot compile the function.
    """
    serialized = _stage(function, specs, "optimized_hlo_proto_serialized")
    assignment = hlo_pb2.HloProto.FromString(serialized).buffer_assignment
    sizes = {buffer.id: buffer.size for buffer in assignment.logical_buffers}
    timeline = [
        HeapEvent(event.instruction_name, -size if event.kind == event.FREE else size)
        for trace in assignment.heap_simulator_traces
        for event in trace.events
        if (size := sizes.get(event.buffer_id, 0)) and event.kind != event.SHARE_WITH
    ]
    allocations = map(_allocation, assignment.buffer_allocations)
    return BufferAssignment(tuple(allocations), tuple(timeline))


def optimized_hlo(function: ConcreteFunction, specs: Sequence[tf.TensorSpec]) -> str:
    """The text of what XLA makes of the function, for reading."""
    return str(_stage(function, specs, "optimized_hlo"))


def _allocation(proto: Any) -> Allocation:
    if proto.is_entry_computation_parameter:
        return Allocation(proto.size, "argument", proto.parameter_number)
    if proto.is_constant:
        return Allocation(proto.size, "constant")
    return Allocation(proto.size, "result" if proto.maybe_live_out else "temporary")


def _stage(function: ConcreteFunction, specs: Sequence[tf.TensorSpec], stage: str) -> Any:
    try:
        return compiler_ir.from_concrete_function(function, list(specs) or None)(stage=stage)
    except (ValueError, tf.errors.OpError) as error:
        raise XlaCompileError(str(error)) from error


def stablehlo_function(
    text: str, inputs: Sequence[tf.TensorSpec], outputs: Sequence[tf.TensorSpec]
) -> ConcreteFunction:
    """A compiled concrete function that runs StableHLO text.

    inputs, outputs: the fully defined type of each argument and result of the text's `main`.
    Example: `stablehlo_function(text, [TensorSpec([2])], [TensorSpec([2])])(x)` -> a list.
    """

    @tf.function(jit_compile=True, autograph=False, input_signature=[list(inputs)])
    def run(arguments: list[tf.Tensor]) -> list[tf.Tensor]:
        results = tf_xla.call_module(
            arguments,
            version=STABLEHLO_VERSION,
            module=text,
            Tout=[spec.dtype for spec in outputs],
            Sout=[spec.shape for spec in outputs],
            platforms=platforms(),
        )
        return list(results) if outputs else []

    return run.get_concrete_function()


def platforms() -> list[str]:
    """The platforms that a program is written for: the CPU and what else this process can see."""
    kinds = {device.device_type for device in tf.config.list_logical_devices()}
    names = {"CPU": "CPU", "GPU": "CUDA", "TPU": "TPU"}
    if "GPU" in kinds and tf.test.is_built_with_rocm():
        names["GPU"] = "ROCM"
    return sorted(names[kind] for kind in kinds & names.keys())


def call_flat(
    function: ConcreteFunction, inputs: Sequence[tf.Tensor], captures: Sequence[tf.Tensor]
) -> Any:
    """Calls a concrete function as TensorFlow itself does, hook or no hook."""
    return _original_call_flat(function, list(inputs), list(captures))


def variable_updates(module: Any) -> dict[int, int]:
    """Which parameter (a variable's value) each extra output of an HloModuleProto replaces."""
    return {
        entry.output_shape_index[0] if entry.output_shape_index else 0: entry.parameter_number
        for entry in module.input_output_alias.entries
    }


def is_watched(tensors: Sequence[tf.Tensor], function: ConcreteFunction) -> bool:
    """Whether a gradient tape (or a forward accumulator) would record this call.

    As TensorFlow itself does, tells open tapes which variables the function reads.
    """
    if not record.could_possibly_record():
        return False
    for variable in function.graph.variables:
        resource_variable_ops.variable_accessed(variable)
    possible = gradients_util.PossibleTapeGradientTypes(list(tensors))
    return bool(possible != gradients_util.POSSIBLE_GRADIENT_TYPES_NONE)


def flat_specs(function: ConcreteFunction, args: Any, kwargs: Any) -> list[tf.TensorSpec]:
    """The type of each argument tensor, in the order of `function.inputs`.

    args, kwargs: what the tf.function was called with; a tf.TensorSpec may stand for any tensor.
    """
    signature = function.function_type
    bound = signature.bind(*args, **kwargs).arguments
    # TensorFlow flattens positional parameters in order, then keyword-only ones by name.
    keyword_only = {n for n, p in signature.parameters.items() if p.kind is p.KEYWORD_ONLY}
    names = [n for n in bound if n not in keyword_only] + sorted(keyword_only & bound.keys())
    leaves = [tf.nest.flatten(bound[name]) for name in names]
    specs = [
        leaf if isinstance(leaf, tf.TensorSpec) else tf.TensorSpec(np.shape(leaf))
        for group in leaves
        for leaf in group
        if isinstance(leaf, tf.Tensor | tf.TensorSpec | np.ndarray | np.generic)
    ]
    traced = function.inputs[: len(function.inputs) - len(function.captured_inputs)]
    shapes = [spec.shape for spec in specs] if len(specs) == len(traced) else [None] * len(traced)
    return [
        tf.TensorSpec(tensor.shape if shape is None else tensor.shape.merge_with(shape), tensor.dtype)
        for tensor, shape in zip(traced, shapes, strict=True)
    ]


def find_operation(graph: tf.Graph, op_name: str) -> tf.Operation | None:
    """The TensorFlow operation that HLO's metadata calls `op_name`, inside called functions too."""
    parts = op_name.split(";")[-1].split("/")
    for length in range(len(parts), 0, -1):
        try:
            operation = graph.get_operation_by_name("/".join(parts[:length]))
        except KeyError:
            continue
        rest = "/".join(parts[length:])
        inner = (find_operation(called, rest) for called in _called_graphs(operation))
        return next((found for found in inner if found), operation) if rest else operation
    return None


def _called_graphs(operation: tf.Operation) -> list[tf.Graph]:
    names = [
        attribute.func.name
        for attribute in operation.node_def.attr.values()
        if attribute.WhichOneof("value") == "func"
    ]
    functions = [operation.graph._get_function(name) for name in names]
    return [function.graph for function in functions if function is not None and function.graph]


def call_inference(function: ConcreteFunction, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Runs a concrete function on all its inputs, with no gradient: the flat results."""
    return list(function._inference_function.call_flat(*inputs))


def pack_outputs(function: ConcreteFunction, flat: Sequence[tf.Tensor]) -> Any:
    """The results in the structure that the user's function returns."""
    return function.function_type.pack_output(list(flat))


CallFlat = Callable[[ConcreteFunction, list[tf.Tensor], list[tf.Tensor]], Any]
_original_call_flat: CallFlat = ConcreteFunction._call_flat


def intercept_calls(replacement: CallFlat) -> None:
    """From now on every call of a concrete function goes to `replacement`."""
    ConcreteFunction._call_flat = replacement


def release_calls() -> None:
    """TensorFlow's own method is back, the very same object."""
    ConcreteFunction._call_flat = _original_call_flat
