"""What a traced function takes from outside, beside the arguments of a call."""

from __future__ import annotations

import tensorflow as tf

from tf_memsafe import xla
from tf_memsafe.xla import ConcreteFunction


def captured(function: ConcreteFunction) -> list[tf.Variable | tf.Tensor]:
    """What comes after the arguments in `function.inputs`, variables in place of their handles."""
    by_handle = {id(variable.handle): variable for variable in function.graph.variables}
    return [by_handle.get(id(each), each) for each in function.captured_inputs]


def names_of_inputs(function: ConcreteFunction) -> list[str]:
    """What the user calls each of `function.inputs`: an argument, or a variable, by its name."""
    traced = enumerate(xla.arguments_of(function))
    return [_argument(index, tensor.op.name) for index, tensor in traced] + [
        f"variable {each.name.removesuffix(':0')}"
        if isinstance(each, tf.Variable)
        else "a tensor from outside the function"
        for each in captured(function)
    ]


def _argument(index: int, name: str) -> str:
    """TensorFlow names what has no name of the user's `Placeholder`, or by its number."""
    given = name[:1].isalpha() and not name.startswith("Placeholder")
    return f"argument {name if given else index}"
