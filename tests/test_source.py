"""Where the values of a program were made, as line numbers of this very file."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from tests.programs import compiled
from tf_memsafe import source, xla
from tf_memsafe.demos import knn
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.reader import read
from tf_memsafe.source import SourceLine, is_library, locate, name_of_file

Function = Callable[[tf.Tensor], tf.Tensor]


def lines_of(function: Function) -> dict[str, set[str]]:
    """The lines of code that each kind of instruction of a program is traced to."""
    spec = tf.TensorSpec([3])
    concrete = compiled(function, autograph=True).get_concrete_function(spec)
    found: dict[str, set[str]] = {}
    for node in topological(read(xla.hlo_module(concrete, [spec])).outputs):
        line = locate(concrete.graph, node.source)
        if line is not None:
            assert line.file == __file__
            found.setdefault(node.name, set()).add(line.code)
    return found


def test_each_line_made_its_own() -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        sine = tf.sin(x)
        return tf.cos(sine)

    lines = lines_of(function)
    assert lines["sine"] == {"sine = tf.sin(x)"}
    assert lines["cosine"] == {"return tf.cos(sine)"}


def test_the_innermost_of_the_users_lines_is_the_one() -> None:
    def helper(x: tf.Tensor) -> tf.Tensor:
        return tf.sin(x)  # here

    assert lines_of(lambda x: helper(x) + 1)["sine"] == {"return tf.sin(x)  # here"}


def test_lines_inside_of_a_called_function() -> None:
    @tf.function
    def called(x: tf.Tensor) -> tf.Tensor:
        return tf.sin(x)  # inside

    assert lines_of(lambda x: called(x) + 1)["sine"] == {"return tf.sin(x)  # inside"}


def test_what_a_library_made_is_at_the_line_that_called_it() -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        return tf.nn.softmax(x)

    assert lines_of(function)["exponential"] == {"return tf.nn.softmax(x)"}


def test_converted_code_has_its_lines() -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        if tf.reduce_sum(x) > 0:
            x = tf.sin(x)
        return tf.cos(x)

    assert lines_of(function)["cosine"] == {"return tf.cos(x)"}


def test_a_gradient_is_at_the_line_that_asked_for_it() -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sin(x)
        return tape.gradient(y, x)

    assert lines_of(function)["cosine"] == {"return tape.gradient(y, x)"}


def test_an_argument_has_no_line() -> None:
    assert "parameter" not in lines_of(tf.sin)


def test_a_source_line_reads_as_file_and_line() -> None:
    line = SourceLine(__file__, inspect.currentframe().f_lineno, "Sin")  # type: ignore[union-attr]
    assert str(line) == f"{__file__}:{line.line}"
    assert line.code.startswith("line = SourceLine(")


def test_a_file_that_is_not_there_has_no_code() -> None:
    assert SourceLine("/nowhere.py", 3, "Sin").code == ""


NEIGHBOUR = f"{Path(source.__file__).parent}_experiments/model.py"
LIBRARY_FILES = [np.__file__, tf.__file__, inspect.__file__, source.__file__, "<frozen importlib>"]
USER_FILES = [__file__, knn.__file__, "<stdin>", "<ipython-input-1-0>", NEIGHBOUR]


@pytest.mark.parametrize("file", LIBRARY_FILES)
def test_library_files(file: str) -> None:
    assert is_library(file)


@pytest.mark.parametrize("file", USER_FILES)
def test_the_users_files(file: str) -> None:
    assert not is_library(file)


def test_a_cell_is_called_by_its_number_where_ipython_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """IPython 7 has none: there a cell is the file that ipykernel makes of it."""

    class Compiler:
        def format_code_name(self, name: str) -> tuple[str, str] | None:
            return ("Cell", "In[3]") if name == "/tmp/ipykernel_1/2.py" else None

    for compiler, expected in ((Compiler(), "In[3]"), (object(), "/tmp/ipykernel_1/2.py")):
        shell = SimpleNamespace(compile=compiler)
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda s=shell: s))
        assert name_of_file("/tmp/ipykernel_1/2.py") == expected
        assert name_of_file(__file__) == __file__
