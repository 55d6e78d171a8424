"""Where in the user's own files a value of the program was made."""

from __future__ import annotations

import linecache
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import tensorflow as tf

from tf_memsafe import xla
from tf_memsafe.hlo.node import Source

_PACKAGE = Path(__file__).parent
_INSTALLED = ("stdlib", "platstdlib", "purelib", "platlib")
TENSORFLOW = ("tensorflow", "tf_memsafe")
"""Packages whose own lines tell a user nothing."""

_TYPED_IN = ("<stdin>", "<ipython-input")
_LIBRARIES = tuple(map(sysconfig.get_path, _INSTALLED))


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's code, and the TensorFlow op it made.

    library: the line of the library that the user's line called, and that made the op; empty if
    that was TensorFlow itself. Example: "gpflow/models/sgpr.py:166".
    """

    file: str
    line: int
    op: str
    library: str = ""

    @property
    def code(self) -> str:
        """The text of the line, empty where the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def name(self) -> str:
        """The file, or the cell of a notebook: `In[3]`."""
        return name_of_file(self.file)

    @property
    def short(self) -> str:
        """`knn.py:12`, without folders."""
        return f"{Path(self.name).name}:{self.line}"

    def __str__(self) -> str:
        return f"{self.name}:{self.line}"


def name_of_file(file: str) -> str:
    """The file, or what IPython calls the cell whose code it keeps under this name."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    # IPython 7, which some hosted notebooks run, has no names for cells.
    naming = getattr(shell.compile, "format_code_name", None) if shell is not None else None
    named = naming(file) if naming is not None else None
    return named[1] if named else file


def locate(graph: tf.Graph, source: Source | None) -> SourceLine | None:
    """The user's line that made a node of this source: the innermost frame outside of packages."""
    if source is None or not source.op_name:
        return None
    operation = find_operation(graph, source.op_name)
    return _line(operation, source.op_type) if operation is not None else None


def find_operation(graph: tf.Graph, op_name: str) -> tf.Operation | None:
    """The TensorFlow operation that HLO's metadata calls `op_name`, inside called functions too.

    If there is none of that name, the operation that calls the function it was made in.
    """
    path = op_name.rpartition(";")[2]
    found = _find_inside(graph, path)
    while found is None and path:
        path = path.rpartition("/")[0]
        found = _operation(graph, path)
    return found


def _find_inside(graph: tf.Graph, path: str) -> tf.Operation | None:
    """Calls prefix the names inside them with their own; loops and branches have them in full."""
    found = _operation(graph, path)
    if found is not None:
        return found
    operations = graph.get_operations()
    callers = sorted(operations, key=lambda operation: not path.startswith(f"{operation.name}/"))
    for operation in callers:
        paths = dict.fromkeys((path.removeprefix(f"{operation.name}/"), path))
        for called in xla.called_graphs(operation):
            found = next(filter(None, (_find_inside(called, inner) for inner in paths)), None)
            if found is not None:
                return found
    return None


def _operation(graph: tf.Graph, name: str) -> tf.Operation | None:
    try:
        return graph.get_operation_by_name(name)
    except (KeyError, ValueError):  # ValueError: not a name at all
        return None


def first_line(graph: tf.Graph) -> SourceLine | None:
    """The user's line that made the first operation of a traced function: where it is written."""
    operations = (o for o in graph.get_operations() if o.type != "Placeholder")
    return next(filter(None, map(line_of, operations)), None)


def line_of(operation: tf.Operation) -> SourceLine | None:
    """The user's line that made an operation."""
    return _line(operation, operation.type)


def _line(operation: tf.Operation, op_type: str) -> SourceLine | None:
    library = ""
    for frame in reversed(operation.traceback or ()):  # a loaded function has none
        if not is_library(frame.filename):
            return SourceLine(frame.filename, frame.lineno, op_type, library)
        if not library and (file := _installed_file(frame.filename)):
            library = f"{file}:{frame.lineno}"
    return None


@cache
def _installed_file(filename: str) -> str:
    """The path of an installed package's file from the package on; empty for TensorFlow's own."""
    parts = Path(filename).parts
    for folder in ("site-packages", "dist-packages"):
        if folder in parts:
            inside = parts[parts.index(folder) + 1 :]
            return "" if inside[0] in TENSORFLOW else "/".join(inside)
    return ""


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
