"""Where in the user's own files a value of the program was made."""

from __future__ import annotations

import linecache
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import tensorflow as tf

from tf_memsafe import xla
from tf_memsafe.hlo.node import Node

_PACKAGE = Path(__file__).parent
_INSTALLED = ("stdlib", "platstdlib", "purelib", "platlib")
_TYPED_IN = ("<stdin>", "<ipython-input")
_LIBRARIES = tuple(map(sysconfig.get_path, _INSTALLED))


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's code, and the TensorFlow op it made."""

    file: str
    line: int
    op: str

    @property
    def code(self) -> str:
        """The text of the line, empty where the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def locate(graph: tf.Graph, node: Node) -> SourceLine | None:
    """The user's line that made a node: the innermost frame outside installed packages."""
    if node.source is None:
        return None
    operation = xla.find_operation(graph, node.source.op_name)
    return _line(operation, node.source.op_type) if operation is not None else None


def first_line(graph: tf.Graph) -> SourceLine | None:
    """The user's line that made the first operation of a traced function: where it is written."""
    operations = (o for o in graph.get_operations() if o.type != "Placeholder")
    return next(filter(None, (_line(o, o.type) for o in operations)), None)


def _line(operation: tf.Operation, op_type: str) -> SourceLine | None:
    for frame in reversed(operation.traceback or ()):  # a loaded function has none
        if not is_library(frame.filename):
            return SourceLine(frame.filename, frame.lineno, op_type)
    return None


@cache
def is_library(filename: str) -> bool:
    """Whether a file is TensorFlow's, an installed package's, Python's own or this package's.

    The demos are users' code: they are read as examples.
    """
    if filename.startswith("<"):
        return not filename.startswith(_TYPED_IN)
    path = Path(filename)
    if path.is_relative_to(_PACKAGE):
        return "demos" not in path.relative_to(_PACKAGE).parts
    installed = {"site-packages", "dist-packages"} & set(path.parts)
    return bool(installed) or any(map(path.is_relative_to, _LIBRARIES))
