"""What tf_memsafe raises and warns of."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable

import tensorflow as tf

from tf_memsafe.source import SourceLine, first_line, is_library


class MemoryLimitError(tf.errors.ResourceExhaustedError):
    """A function needs more memory than the limit allows, and could not be cut far enough.

    It is raised before anything is allocated. `memory_limit` is the limit and `smallest_peak` the
    least that the function was found to need, both in bytes, or None where there is no such figure.

    Example:
        try:
            values, indices = knn(queries, points)
        except tf_memsafe.MemoryLimitError as error:
            print(error.message, error.smallest_peak)
    """

    def __init__(
        self,
        message: str,
        memory_limit: int | None = None,
        smallest_peak: int | None = None,
    ) -> None:
        super().__init__(None, None, message)
        self.memory_limit = memory_limit
        self.smallest_peak = smallest_peak

    def __reduce__(self) -> tuple[type[MemoryLimitError], tuple[str, int | None, int | None]]:
        return type(self), (self.message, self.memory_limit, self.smallest_peak)


class IncompatibleTensorFlowError(RuntimeError):
    """This TensorFlow has changed something that tf_memsafe relies on; the message says what."""


class MemorySafetyWarning(UserWarning):
    """A function runs as the user wrote it although a limit is set, or a program made for it is not
    used; the message says why.
    """


_warned: set[tuple[str, SourceLine | None]] = set()


def warn_once(message: str, graph: tf.Graph, more: Callable[[tf.Graph], str] | None = None) -> None:
    """Warns of what became of a traced function: once for all its traces, which differ in shape.

    Functions are told apart by where they are written, messages by their words alone. The warning
    is at the line of the user's code that is running, whatever libraries lie between. more: what
    else to say of the graph, which is asked for where there is a warning only.
    """
    key = re.sub(r"\d+", "", message), first_line(graph)
    if key in _warned:
        return
    frame = sys._getframe(1)
    while frame.f_back is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    text = f"{message}. {more(graph)}" if more else message
    warnings.warn_explicit(
        text, MemorySafetyWarning, frame.f_code.co_filename, frame.f_lineno, module="tf_memsafe"
    )
    _warned.add(key)  # not where warnings are errors: they are raised at each call
