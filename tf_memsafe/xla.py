"""The only file that touches TensorFlow's non-public API; `self_check` tests every use of it.

What is used: the HLO of a concrete function and its buffer assignment (`Context.get_compiler_ir`),
the protobuf classes that read them, the ops that compile a function (`_XlaCompile`) and run
StableHLO text (`XlaCallModule`), the method that every call of a tf.function goes through
(`ConcreteFunction._call_flat`), and what tapes and forward accumulators are told of a call
(`record`, `forwardprop_util`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from traceback import walk_stack
from types import FrameType
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tf_memsafe import compiled_once, devices
from tf_memsafe.buffers import BufferAssignment, read_buffers
from tf_memsafe.disk_cache import anonymous, remembered

try:
    from tensorflow.compiler.tf2xla.python import xla as tf_xla
    from tensorflow.compiler.xla.service import hlo_pb2
    from tensorflow.core.framework import attr_value_pb2
    from tensorflow.python.eager import context, forwardprop_util, record
    from tensorflow.python.eager.polymorphic_function import concrete_function, polymorphic_function
    from tensorflow.python.ops import gradients_util, resource_variable_ops
    from tensorflow.python.util import nest
except ImportError as error:
    raise ImportError(
        f"TensorFlow {tf.__version__} has moved what tf_memsafe relies on ({error}); "
        "see README.md for the versions that it supports"
    ) from error

ConcreteFunction: TypeAlias = concrete_function.ConcreteFunction

STABLEHLO_VERSION = 9
"""The version of XlaCallModule's calling convention that the text is written for."""

COMPILE_ATTRIBUTE = "_XlaMustCompile"

MOST_ELEMENTS = 2**31 - 1
"""Along an axis of an argument that `tf.raw_ops.Empty` can reserve."""


class XlaCompileError(Exception):
    """XLA cannot compile this function; the message says why.

    node: the name of the operation that XLA has no kernel for, if it is about one.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        names = re.findall(r"{{node ([^}]+)}}", message)
        self.node: str | None = names[-1] if names else None


def name_of(function: ConcreteFunction) -> str:
    """The name that the user gave the function."""
    return re.sub(r"_\d+$", "", _text(function.name).removeprefix("__inference_"))


def result_specs(function: ConcreteFunction) -> list[tf.TensorSpec]:
    """The type of each flat result; `function.outputs` may hold what a gradient needs as well."""
    return [tf.TensorSpec(t.shape, t.dtype) for t in function.function_type.flat_outputs]


def arguments_of(function: ConcreteFunction) -> list[tf.Tensor]:
    """What a call gives of `function.inputs`; what follows is captured."""
    return list(function.inputs[: len(function.inputs) - len(function.captured_inputs)])


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

    What XLA compiled in another process is not compiled again (`disk_cache`).

    Raises XlaCompileError when XLA cannot compile the function.
    """
    serialized = remembered(
        lambda: _identity(function, specs),
        lambda: _stage(function, specs, "optimized_hlo_proto_serialized"),
    )
    return read_buffers(hlo_pb2.HloProto.FromString(serialized))


def _identity(function: ConcreteFunction, specs: Sequence[tf.TensorSpec]) -> bytes:
    return devices.current().encode() + anonymous(hlo_module(function, specs))


def optimized_hlo(function: ConcreteFunction, specs: Sequence[tf.TensorSpec]) -> str:
    """The text of what XLA makes of the function, for reading."""
    return _stage(function, specs, "optimized_hlo").decode()


def _stage(function: ConcreteFunction, specs: Sequence[tf.TensorSpec], stage: str) -> bytes:
    """`compiler_ir.from_concrete_function`, but for its faults.

    It draws a random number, which moves the user's own sequence on, and some functions without
    tensor arguments break it.
    """
    _check_specs(function, specs)
    try:
        return context.context().get_compiler_ir(
            devices.current(), None, function.name, list(specs), function.captured_inputs, stage
        )
    except (ValueError, tf.errors.OpError) as error:
        raise XlaCompileError(f"XLA cannot compile it: {error}") from error


def compile_for_calls(
    function: ConcreteFunction, specs: Sequence[tf.TensorSpec]
) -> BufferAssignment:
    """Like `measure`, in the very compile that the function's calls would wait for, if that can be.

    function: one with `jit_compile=True` that captures nothing. What TensorFlow keeps of such a
    compile has every buffer, but no timeline. On disk it has a file of its own.

    Raises XlaCompileError when XLA cannot compile the function.
    """
    _check_specs(function, specs)
    if not _can_be_compiled_ahead(specs):
        return measure(function, specs)
    serialized = remembered(
        lambda: b"for calls " + _identity(function, specs),
        lambda: (
            _compiled_ahead(function, specs)
            or _stage(function, specs, "optimized_hlo_proto_serialized")
        ),
    )
    buffers = read_buffers(hlo_pb2.HloProto.FromString(serialized))
    return replace(buffers, has_timeline=False)


def _compiled_ahead(function: ConcreteFunction, specs: Sequence[tf.TensorSpec]) -> bytes:
    """What XLA made of the function for its calls, an HloProto; nothing if that is not to be had.

    Of a function that XLA cannot compile, `_stage` says why.
    """
    with compiled_once.lock, tf.init_scope(), tf.device(devices.current()):
        try:
            call_inference(_compiling(function, specs), [])
        except tf.errors.OpError:
            return b""
        entry = compiled_once.taken(_text(function.name))
    if entry is None:
        return b""
    compiled = hlo_pb2.HloProto()
    compiled.hlo_module.ParseFromString(entry.module)
    compiled.buffer_assignment.ParseFromString(entry.buffers)
    return bytes(compiled.SerializeToString())


def _can_be_compiled_ahead(specs: Sequence[tf.TensorSpec]) -> bool:
    """Whether its buffers could be read, and arguments of these types be reserved.

    On a GPU they would take memory.
    """
    sizes = [size for spec in specs for size in spec.shape]
    can_be_reserved = max(sizes, default=0) <= MOST_ELEMENTS and devices.current_type() == "CPU"
    return can_be_reserved and compiled_once.is_heard()


def _compiling(function: ConcreteFunction, specs: Sequence[tf.TensorSpec]) -> ConcreteFunction:
    """What compiles a function for its calls, and runs nothing.

    The op is given all that tells TensorFlow's cache one program from another. Arguments are
    reserved, of which no byte is touched.
    """
    called = attr_value_pb2.NameAttrList(name=_text(function.name))
    called.attr[COMPILE_ATTRIBUTE].b = True
    for name, value in context.context().function_call_options.as_attrs().items():
        called.attr[name].s = value if isinstance(value, bytes) else value.encode()
    types = [spec.dtype.as_datatype_enum for spec in specs]

    @tf.function(autograph=False)
    def compile_only() -> tf.Tensor:
        function.add_to_graph()
        compile_op = tf.compat.v1.get_default_graph()._create_op_internal(
            "_XlaCompile",
            [tf.raw_ops.Empty(shape=spec.shape, dtype=spec.dtype) for spec in specs],
            [tf.string, tf.bool],
            name="compile",
            attrs={
                "function": attr_value_pb2.AttrValue(func=called),
                "must_compile": attr_value_pb2.AttrValue(b=True),
                "Tconstants": _type_list([]),
                "Targs": _type_list(types),
                "Nresources": attr_value_pb2.AttrValue(i=0),
            },
        )
        return compile_op.outputs[1]

    return compile_only.get_concrete_function()


def _type_list(types: Sequence[int]) -> attr_value_pb2.AttrValue:
    return attr_value_pb2.AttrValue(list=attr_value_pb2.AttrValue.ListValue(type=types))


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def is_compiled_around() -> bool:
    """Whether what is traced now is part of a function with `jit_compile=True`.

    The graph's own XLA context does not tell: a call enters one for what it calls.
    """
    return any(frame.f_locals.get("compile_with_xla") for frame in _function_frames())


def is_called_around() -> bool:
    """Whether what is called now is traced as part of a tf.function that is itself being called."""
    return sum(frame.f_code.co_name == "__call__" for frame in _function_frames()) > 1


def _function_frames() -> list[FrameType]:
    """What runs now of the code that traces and calls tf.functions."""
    frames = (frame for frame, _ in walk_stack(sys._getframe()))
    return [each for each in frames if each.f_code.co_filename == polymorphic_function.__file__]


def _check_specs(function: ConcreteFunction, specs: Sequence[tf.TensorSpec]) -> None:
    """Refuses what TensorFlow would crash at."""
    count = len(arguments_of(function))
    if len(specs) != count or not all(spec.shape.is_fully_defined() for spec in specs):
        given = ", ".join(str(spec.shape) for spec in specs) or "none"
        advice = "give tensors, or a tf.TensorSpec without None for each"
        needed = f"{name_of(function)} needs {count} fully known shapes"
        raise ValueError(f"{needed}, not {given}: {advice}")
    if any(spec.dtype in (tf.resource, tf.variant) for spec in specs):
        taken = "it takes a tf.Variable (or another resource) as an argument"
        raise XlaCompileError(f"{taken}; let it use that from outside, as a method does")


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
            platforms=devices.platforms(),
        )
        return list(results) if outputs else []

    return run.get_concrete_function()


def call_flat(
    function: ConcreteFunction, inputs: Sequence[tf.Tensor], captures: Sequence[tf.Tensor]
) -> Any:
    """Calls a concrete function as TensorFlow itself does, hook or no hook."""
    return _original_call_flat(function, list(inputs), list(captures))


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


def unrecorded() -> AbstractContextManager[None]:
    """A block of which no gradient tape sees anything."""
    block: AbstractContextManager[None] = record.stop_recording()
    return block


def recording_anew() -> AbstractContextManager[None]:
    """A block in which new tapes work, also while a forward accumulator looks at a call."""
    block: AbstractContextManager[None] = forwardprop_util.push_forwardprop_state()
    return block


def would_go_back(tensors: Sequence[tf.Tensor]) -> bool:
    """Whether a gradient tape watches one of the tensors; a forward accumulator is none."""
    return bool(record.should_record_backprop(list(tensors)))


def with_tangents(tensors: Sequence[tf.Tensor]) -> tuple[int, ...]:
    """The positions of those tensors that a tf.autodiff.ForwardAccumulator watches."""
    pairs = enumerate(tensors)
    return tuple(i for i, each in pairs if forwardprop_util.pack_tangents([each]).tangents)


def is_tangent_of_op(function: ConcreteFunction) -> bool:
    """Whether TensorFlow made it for a forward accumulator, of one op that is run eagerly."""
    return name_of(function) in ("_jvp_exact_shapes", "_jvp_relaxed_shapes")


def record_call(
    results: Sequence[tf.Tensor],
    inputs: Sequence[tf.Tensor],
    gradients: Callable[..., list[tf.Tensor | None]],
    tangents: Callable[..., list[tf.Tensor | None]],
) -> None:
    """Tells gradient tapes and forward accumulators of a call that they saw nothing of.

    gradients: of the inputs, from those of the results. tangents: of the results, from those of
    the inputs, which are zeros where an input has none.
    """
    record.record_operation("tf_memsafe", list(results), list(inputs), gradients, tangents)


def flat_arguments(
    function: ConcreteFunction, args: Any, kwargs: Any, few: int = 0
) -> list[tf.Tensor | tf.TensorSpec]:
    """Each argument tensor, in the order of `function.inputs`, or the type of what is none yet.

    args, kwargs: what the tf.function was called with; a tf.TensorSpec may stand for any tensor.
    few: of how many elements at most numbers are made a tensor.
    """
    leaves = [
        leaf
        for structure, value in _arguments(function, args, kwargs)
        for spec, leaf in zip(
            nest.flatten(structure), nest.flatten_up_to(structure, value), strict=True
        )
        if isinstance(spec, tf.TensorSpec)
    ]
    traced = arguments_of(function)
    if len(leaves) != len(traced):  # a composite argument, such as a tf.RaggedTensor
        return [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in traced]
    return [_argument(*each, few) for each in zip(traced, leaves, strict=True)]


def _argument(traced: tf.Tensor, leaf: Any, few: int) -> tf.Tensor | tf.TensorSpec:
    if isinstance(leaf, tf.Tensor):
        return leaf
    is_spec = isinstance(leaf, tf.TensorSpec)
    if not is_spec and np.size(leaf) <= few:
        return tf.constant(leaf, traced.dtype)
    shape = leaf.shape if is_spec else np.shape(leaf)
    return tf.TensorSpec(traced.shape.merge_with(shape), traced.dtype)


def _arguments(function: ConcreteFunction, args: Any, kwargs: Any) -> Iterator[tuple[Any, Any]]:
    """The structure of each parameter's specs and the value given for it, in TensorFlow's order."""
    signature = function.function_type
    bound = signature.bind_partial(*args, **kwargs).arguments
    positional, keyword_only = function.structured_input_signature
    names = (name for name, p in signature.parameters.items() if p.kind is not p.KEYWORD_ONLY)
    structures = dict(zip(names, positional, strict=True)) | dict(sorted(keyword_only.items()))
    for name, structure in structures.items():
        yield structure, bound.get(name, structure)


def called_graphs(operation: tf.Operation) -> list[tf.Graph]:
    """The bodies that an operation runs: of a call, a loop, a branch."""
    attributes = operation.node_def.attr.values()
    names = [f.name for a in attributes for f in (a.func, *a.list.func) if f.name]
    functions = [operation.graph._get_function(name) for name in names]
    return [function.graph for function in functions if function is not None and function.graph]


def call_inference(function: ConcreteFunction, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Runs a concrete function on all its inputs, with no gradient: the flat results."""
    return list(function._inference_function.call_flat(*inputs) or ())


def pack_outputs(function: ConcreteFunction, flat: Sequence[tf.Tensor]) -> Any:
    """The results in the structure that the user's function returns."""
    return function.function_type.pack_output(list(flat))


class FunctionProxy:
    """Stands for a tf.function so that tf.Module and tf.saved_model take it for one.

    A subclass keeps the function, and says in `functions_to_save` what is saved in its place.
    """

    tf_function: Any

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.tf_function)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tf_function, name)

    def functions_to_save(self, traced: list[ConcreteFunction]) -> list[ConcreteFunction]:
        """traced: the function's own, one for each signature."""
        raise NotImplementedError

    def _list_all_concrete_functions_for_serialization(self) -> list[ConcreteFunction]:
        traced = self.tf_function._list_all_concrete_functions_for_serialization()
        return self.functions_to_save(traced)

    def _trackable_children(self, save_type: str = "checkpoint", **options: Any) -> Any:
        return polymorphic_function.Function._trackable_children(self, save_type, **options)


CallFlat = Callable[[ConcreteFunction, list[tf.Tensor], list[tf.Tensor]], Any]
_original_call_flat: CallFlat = ConcreteFunction._call_flat


def intercept_calls(replacement: CallFlat) -> None:
    """From now on every call of a concrete function goes to `replacement`."""
    ConcreteFunction._call_flat = replacement


def release_calls() -> None:
    """TensorFlow's own method is back, the very same object."""
    ConcreteFunction._call_flat = _original_call_flat
