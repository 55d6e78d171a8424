"""`explain`: what a limit does to a function of a SavedModel."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import tensorflow as tf

from tf_memsafe.command.arguments import BadArgumentError
from tf_memsafe.explain import explain as explain_function
from tf_memsafe.xla import ConcreteFunction, XlaCompileError


def explain(options: argparse.Namespace) -> int:
    """Prints the report on a signature; 0 if it fits, 1 if it does not.

    Raises:
        BadArgumentError: for what is no SavedModel, signature or shape.
    """
    signature = _signature(options.saved_model, options.signature)
    specs = _specs(signature, dict(options.shape))
    try:
        report = explain_function(signature, memory_limit=options.memory_limit, **specs)
    except XlaCompileError as error:
        raise BadArgumentError(f"{options.signature}: {_first_line(error)}") from error
    print(report)
    if options.report is not None:
        try:
            print(report.save(options.report))
        except OSError as error:
            raise BadArgumentError(f"cannot write {options.report}: {error}") from error
    return 0 if report.fits else 1


def _signature(folder: str, name: str) -> ConcreteFunction:
    if not tf.saved_model.contains_saved_model(folder):
        raise BadArgumentError(f"{folder} is no SavedModel")
    signatures = tf.saved_model.load(folder).signatures
    if name not in signatures:
        known = ", ".join(signatures) or "none"
        raise BadArgumentError(f"there is no signature {name}; there are: {known}")
    return signatures[name]


def _specs(
    signature: ConcreteFunction, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, tf.TensorSpec]:
    """The type of each input, with the shape that was given for it."""
    _, inputs = signature.structured_input_signature
    if unknown := sorted(shapes.keys() - inputs.keys()):
        raise BadArgumentError(f"there is no input {unknown[0]}; there are: {', '.join(inputs)}")
    specs = {}
    for name, spec in inputs.items():
        shape = tf.TensorShape(shapes[name]) if name in shapes else spec.shape
        if not spec.shape.is_compatible_with(shape):
            raise BadArgumentError(f"{name} has the shape {spec.shape}, not {shape}")
        if not shape.is_fully_defined():
            raise BadArgumentError(f"give a --shape for {name}, which is {spec.shape}")
        specs[name] = tf.TensorSpec(shape, spec.dtype)
    return specs


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
