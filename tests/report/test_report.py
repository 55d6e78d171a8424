"""Reports have the figures, the loops, and the lines of the user's file, and fit a screen."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from tests.programs import COUNT, LIMIT, place_of
from tests.report.reports import shown
from tf_memsafe import Report, explain
from tf_memsafe.hlo import op
from tf_memsafe.hlo.op import by_opcode
from tf_memsafe.report import LARGEST_SHOWN, Blocker, Loop, Tensor
from tf_memsafe.report.text import WIDTH

F64 = tf.float64
SPECS = [tf.TensorSpec([COUNT, 3], F64), tf.TensorSpec([COUNT, 4], F64)]


def kernel(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    distances = tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)
    return tf.exp(-distances) @ v


def factor(x: tf.Tensor) -> tf.Tensor:
    covariance = x @ tf.transpose(x)
    return tf.linalg.cholesky(covariance)


@pytest.fixture(scope="module")
def cut() -> Report:
    return explain(kernel, *SPECS, memory_limit=LIMIT)


@pytest.fixture(scope="module")
def blocked() -> Report:
    return explain(factor, SPECS[0], memory_limit=LIMIT)


# --- a function that is cut ---


def test_the_figures(cut: Report) -> None:
    assert cut.name == "kernel"
    assert cut.memory_limit == LIMIT
    assert cut.fits
    assert cut.peak_after <= LIMIT < 8 * COUNT**2 < cut.peak_before
    assert cut.problem is None
    assert cut.blockers == ()


def test_the_loop(cut: Report) -> None:
    (loop,) = cut.loops
    assert loop.axis_length == COUNT
    assert 1 <= loop.chunk < COUNT
    assert loop.trips == -(-COUNT // loop.chunk)
    assert str(loop) == f"axis of 100 in {loop.trips} chunks of {loop.chunk}"


def test_what_is_no_longer_whole(cut: Report) -> None:
    tensors = {(tensor.dtype, tensor.shape): tensor for tensor in cut.loops[0].tensors}
    assert {("f64", (COUNT, COUNT, 3)), ("f64", (COUNT, COUNT))} <= tensors.keys()
    sources = {str(tensor.source) for tensor in tensors.values()}
    assert place_of(kernel, "distances = ") in sources
    assert all(tensor.bytes == 8 * np.prod(tensor.shape) for tensor in tensors.values())


def test_the_largest_tensors(cut: Report) -> None:
    sizes = [tensor.bytes for tensor in cut.largest]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 24 * COUNT**2
    assert len(sizes) <= LARGEST_SHOWN


def test_the_rewritten_program(cut: Report) -> None:
    assert "stablehlo.while" in cut.stablehlo
    assert "stablehlo.while" not in explain(kernel, *SPECS).stablehlo
    assert "func.func" in explain(kernel, *SPECS).stablehlo


def test_the_text(cut: Report) -> None:
    text = str(cut)
    for part in ("kernel: fits", "40.00 kB", "88.8", "loop over an axis of 100", "240.00 kB"):
        assert part in text
    assert shown(place_of(kernel, "distances = ")) in text
    assert "distances = tf.reduce_sum" in text


def test_what_was_rewritten_and_what_was_not() -> None:
    def chain(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        distances = tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)
        similarities = tf.exp(-distances)
        return (similarities @ similarities) @ v

    report = explain(chain, *SPECS, memory_limit=LIMIT)
    (order,) = [line for line in map(str, report.rewrites) if line.startswith("chain: ")]
    assert "(A @ B) @ v => A @ (B @ v)" in order
    (refusal,) = [line for line in map(str, report.refusals) if line.startswith("distance: ")]
    assert place_of(chain, "distances = ") in refusal
    assert refusal.endswith(": in 3 dimensions the differences are faster")
    assert "rewritten:" in str(report)
    assert json.dumps(report.to_dict())


# --- a function that cannot be cut ---


def test_what_could_not_be_cut(blocked: Report) -> None:
    assert not blocked.fits
    assert blocked.peak_after > LIMIT
    (blocker, *_) = [b for b in blocked.blockers if "cholesky" in b.reason]
    assert blocker.tensor.shape == (COUNT, COUNT)
    assert place_of(factor, "cholesky") in str(blocker)


def test_what_takes_one_trip_is_no_loop(blocked: Report) -> None:
    assert all(loop.trips > 1 for loop in blocked.loops)


def test_the_text_of_what_could_not_be_cut(blocked: Report) -> None:
    text = str(blocked)
    for part in ("factor: does not fit", "could not be cut:", "f64[100, 100]", "cholesky"):
        assert part in text


# --- other functions ---


def test_without_a_limit() -> None:
    report = explain(kernel, *SPECS)
    assert report.memory_limit is None
    assert (report.peak_before, report.loops, report.fits) == (report.peak_after, (), True)
    assert "limit              none" in str(report)
    assert "largest tensors:" in str(report)


def test_an_unknown_op(monkeypatch: pytest.MonkeyPatch) -> None:
    by_opcode("sine")  # all are loaded
    monkeypatch.delitem(op._by_opcode, "sine")
    report = explain(tf.sin, tf.TensorSpec([100]), memory_limit=700)
    assert not report.fits
    assert report.problem is not None
    assert "'sine'" in report.problem
    assert f"left as it is: {report.problem}" in " ".join(str(report).split())
    assert (report.largest, report.stablehlo) == ((), "")


def test_a_large_constant_is_not_an_argument() -> None:
    table = np.random.default_rng(0).normal(size=(1000, 3))
    report = explain(lambda x: tf.constant(table) @ tf.transpose(x), SPECS[0])
    (tensor,) = [tensor for tensor in report.largest if tensor.shape == table.shape]
    assert "argument" not in str(tensor)


def test_an_argument_is_named() -> None:
    (tensor, *_) = explain(tf.square, SPECS[0]).largest
    assert str(tensor) == "   2.40 kB  f64[100, 3]  (argument x)"


# --- both ---


@pytest.mark.parametrize("name", ["cut", "blocked"])
def test_the_dict_is_ready_for_json(name: str, request: pytest.FixtureRequest) -> None:
    report: Report = request.getfixturevalue(name)
    found = json.loads(json.dumps(report.to_dict()))
    assert set(found) == {field.name for field in dataclasses.fields(Report)}
    assert found["peak_after"] == report.peak_after
    assert [loop["chunk"] for loop in found["loops"]] == [loop.chunk for loop in report.loops]
    for tensor in found["largest"]:
        assert {"dtype", "shape", "bytes", "source"} <= set(tensor)


@pytest.mark.parametrize("name", ["cut", "blocked"])
def test_the_text_fits_a_screen(name: str, request: pytest.FixtureRequest) -> None:
    lines = str(request.getfixturevalue(name)).splitlines()
    assert len(lines) < 40
    assert max(map(len, lines)) <= WIDTH == 100


def test_many_loops_and_blockers_fit_a_screen_too() -> None:
    tensor = Tensor("f64", (10**6, 10**6), 8 * 10**12, "add", None)
    loops = tuple(Loop(10**6, 10, 10**5, (tensor,) * 20) for _ in range(6))
    blockers = (Blocker(tensor, "sort needs it whole"),) * 20
    report = Report("f", 10**9, 10**13, 10**10, False, loops=loops, blockers=blockers)
    assert len(str(report).splitlines()) <= 40


def test_a_report_does_not_show_its_program_by_accident(cut: Report) -> None:
    assert "stablehlo" not in repr(cut)
