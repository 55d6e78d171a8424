"""A program is proved to fit by XLA's own count, with as little compiling as that takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.programs import COUNT, LIMIT, assert_same, compiled, kernel, points_and_weights
from tf_memsafe import machine, xla
from tf_memsafe.executable import compile_graph
from tf_memsafe.hlo import op
from tf_memsafe.hlo.op import by_opcode
from tf_memsafe.proof import Proof, prove
from tf_memsafe.rewrite.options import get_optimizer_options
from tf_memsafe.search import MOST_COMPILES
from tf_memsafe.xla import ConcreteFunction

F64 = tf.float64


def proof_of(
    function: Callable[..., Any], *specs: tf.TensorSpec, limit: int | None, **options: bool
) -> Proof:
    concrete = compiled(function).get_concrete_function(*specs)
    return prove(concrete, list(specs), limit, get_optimizer_options(), **options)


def specs(count: int = COUNT) -> list[tf.TensorSpec]:
    return [tf.TensorSpec([count, 3], F64), tf.TensorSpec([count, 4], F64)]


def factor(x: tf.Tensor) -> tf.Tensor:
    return tf.linalg.cholesky(x @ tf.transpose(x))


# --- programs that fit ---


def test_without_a_limit_it_is_measured_and_left_alone() -> None:
    found = proof_of(kernel, *specs(), limit=None)
    assert found.fits
    assert found.fits_as_written
    assert found.peak_after == found.before.peak > COUNT * COUNT * 8
    assert (found.split, found.executable, found.problem) == (None, None, None)
    assert found.graph is not None


def test_a_limit_that_it_fits() -> None:
    found = proof_of(kernel, *specs(), limit=100_000)
    assert found.fits_as_written
    assert found.executable is None
    assert found.before.exact


def test_a_bound_settles_what_surely_fits(measured: list[ConcreteFunction]) -> None:
    found = proof_of(kernel, *specs(), limit=10_000_000, for_calls=True)
    assert found.fits_as_written
    assert measured == []
    exact = proof_of(kernel, *specs(), limit=10_000_000)
    assert len(measured) == 1
    assert found.before.peak >= exact.before.peak


@pytest.mark.parametrize("kind", [compiled, tf.function], ids=["compiled", "plain"])
def test_an_estimate_settles_what_surely_does_not(
    kind: Callable[..., Any], measured: list[ConcreteFunction]
) -> None:
    limit, types = 200_000, specs(5 * COUNT)
    function = kind(kernel).get_concrete_function(*types)
    found = prove(function, types, limit, get_optimizer_options(), for_calls=True)
    assert found.fits
    assert not found.fits_as_written
    assert not found.before.exact
    assert function not in measured
    exact = proof_of(kernel, *types, limit=limit)
    assert exact.before.exact
    assert exact.before.peak > limit
    assert exact.peak_after == found.peak_after


def test_the_peak_as_written_is_measured_for_an_error(measured: list[ConcreteFunction]) -> None:
    found = proof_of(kernel, *specs(5 * COUNT), limit=5_000, for_calls=True)
    assert not found.fits
    assert found.before.exact
    assert len(set(measured)) == len(measured) <= MOST_COMPILES + 1


# --- programs that are cut ---


@pytest.mark.parametrize("limit", [10_000, 20_000, 60_000, 85_000])
def test_a_program_that_fits_gives_the_same(limit: int) -> None:
    found = proof_of(kernel, *specs(), limit=limit)
    assert found.fits
    assert not found.fits_as_written
    executable = found.executable
    assert executable is not None
    assert executable.buffers.peak == found.peak_after <= limit < found.before.peak
    assert executable.buffers.exact
    assert "stablehlo.while" in executable.text
    x, v = points_and_weights()
    assert_same(executable([x, v]), [kernel(x, v)])


@pytest.mark.parametrize(("limit", "programs"), [(LIMIT, 2), (2 * LIMIT, 1)])
def test_one_program_is_enough_unless_the_limit_is_near_what_works(
    limit: int, programs: int, measured: list[ConcreteFunction]
) -> None:
    found = proof_of(kernel, *specs(), limit=limit)
    assert found.fits
    assert len(measured) == 1 + programs  # one as written


def test_large_constants_are_arguments_of_the_program() -> None:
    table = np.random.default_rng(0).normal(size=(800, 3))

    def nearest(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_min(tf.reduce_sum(tf.abs(x[:, None] - tf.constant(table)), -1), 1)

    found = proof_of(nearest, tf.TensorSpec([COUNT, 3], F64), limit=100_000)
    assert found.executable is not None
    assert len(found.executable.text) < table.nbytes
    assert [constant.shape for constant in found.constants] == [table.shape]
    x, _ = points_and_weights()
    assert_same(found.executable([x]), [nearest(x)])


# --- programs that cannot be cut ---


def test_the_smallest_program_is_kept_and_the_search_ends(
    measured: list[ConcreteFunction],
) -> None:
    found = proof_of(kernel, *specs(), limit=8_900)
    assert not found.fits
    assert 8_900 < found.peak_after < 10_000
    assert 2 <= len(measured) <= 1 + MOST_COMPILES


def test_what_cannot_be_cut_is_blamed() -> None:
    found = proof_of(factor, tf.TensorSpec([COUNT, 3], F64), limit=LIMIT)
    assert not found.fits
    assert "cholesky" in {blocker.user.name for blocker in found.blockers}


@pytest.mark.parametrize("limit", [1, 10**9, 10**14])
def test_what_would_take_hours_to_compile_is_not(
    limit: int, measured: list[ConcreteFunction]
) -> None:
    count = 10_000_000  # 800 TB
    found = proof_of(factor, tf.TensorSpec([count, 3], F64), limit=limit)
    assert measured == []
    assert not found.fits
    assert found.peak_after >= count * count * 8
    assert not found.before.exact
    assert found.blockers


@pytest.mark.parametrize("free", [10**6, 10**15])
def test_the_machine_has_no_say(free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "free_memory", lambda: free)
    count = 1_000_000  # 8 TB
    uncut = proof_of(kernel, *specs(count), limit=10 * 8 * count**2)
    assert uncut.fits_as_written
    assert uncut.before.exact
    cut = proof_of(kernel, *specs(count), limit=2 * count * 7 * 8)
    assert cut.fits
    assert cut.before.peak == uncut.before.peak


# --- programs that are not understood ---


def test_an_unknown_op_is_the_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    by_opcode("sine")  # all are loaded
    monkeypatch.delitem(op._by_opcode, "sine")
    found = proof_of(tf.sin, tf.TensorSpec([100]), limit=700)
    assert found.problem is not None
    assert "'sine'" in found.problem
    assert found.graph is None
    assert found.before.peak == 800
    assert not found.fits


def test_what_xla_cannot_compile_is_an_error() -> None:
    with pytest.raises(xla.XlaCompileError, match=r"XLA cannot compile it: .*AsString"):
        proof_of(tf.strings.as_string, tf.TensorSpec([2]), limit=10)


def test_updates_and_effects_are_known() -> None:
    count = tf.Variable(0)

    def counting(x: tf.Tensor) -> tf.Tensor:
        count.assign_add(1)
        return x + tf.random.normal([2])

    found = proof_of(counting, tf.TensorSpec([2]), limit=None)
    assert found.updates == ((1, 1),)
    assert found.has_effects
    assert not proof_of(tf.sin, tf.TensorSpec([2]), limit=None).has_effects


def test_graphs_compile_on_their_own() -> None:
    found = proof_of(kernel, *specs(), limit=None)
    assert found.graph is not None
    executable = compile_graph(found.graph)
    assert executable.buffers.peak == pytest.approx(found.before.peak, rel=0.05)
    x, v = points_and_weights()
    assert_same(executable([x, v]), [kernel(x, v)])
