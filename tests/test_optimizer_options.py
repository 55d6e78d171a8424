"""Optimizers are switched on and off for all functions, for one, and for one `explain`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import LIMIT, assert_same, compiled, kernel, points_and_weights
from tf_memsafe import explain
from tf_memsafe.executable import Executable
from tf_memsafe.proof import Proof

F64 = tf.float64
NO_CHAIN = {"chain": False}
ROWS = 80
ARGUMENTS = [np.random.default_rng(i).normal(size=size) for i, size in enumerate([(ROWS, 3)] * 2)]
CHAIN_LIMIT = 30_000
"""Bytes: `chain` needs 51 kB for its matrix; in the other order, nothing of note."""


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = tf_memsafe.get_optimizer_options()
    yield
    tf_memsafe.set_optimizer_options(before)


def chain(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return (x @ tf.transpose(y)) @ x


def optimizers(proof: Proof) -> set[str]:
    return {each.optimizer for each in proof.rewrites}


def test_for_all_functions_from_the_next_call_on(
    proofs: list[Proof], rewritten_runs: list[Executable]
) -> None:
    function, expected = compiled(chain), chain(*ARGUMENTS)
    with tf_memsafe.memory_limit(CHAIN_LIMIT):
        for options in ({}, NO_CHAIN, {"chain": True}):
            tf_memsafe.set_optimizer_options(options)
            assert_same(function(*ARGUMENTS), expected)
    assert ["chain" in optimizers(proof) for proof in proofs] == [True, False]
    first, second, third = rewritten_runs
    assert first is third
    assert "while" in second.text
    assert "while" not in first.text


def test_for_one_function(proofs: list[Proof]) -> None:
    limited = tf_memsafe.function(memory_limit=CHAIN_LIMIT, optimizer_options=NO_CHAIN)(chain)
    limited(*ARGUMENTS)
    tf_memsafe.function(chain, memory_limit=CHAIN_LIMIT)(*ARGUMENTS)
    assert ["chain" in optimizers(proof) for proof in proofs] == [False, True]
    assert tf_memsafe.get_optimizer_options()["chain"]


def test_for_one_function_under_the_process_limit(proofs: list[Proof]) -> None:
    function = tf_memsafe.function(chain, optimizer_options=NO_CHAIN)
    with tf_memsafe.memory_limit(CHAIN_LIMIT):
        function(*ARGUMENTS)
    assert [optimizers(proof) & {"chain"} for proof in proofs] == [set()]


def test_what_a_function_leaves_out_is_as_for_all(proofs: list[Proof]) -> None:
    function = tf_memsafe.function(
        chain, memory_limit=CHAIN_LIMIT, optimizer_options={"distance": False}
    )
    for options in ({}, NO_CHAIN):
        tf_memsafe.set_optimizer_options(options)
        function(*ARGUMENTS)
    assert ["chain" in optimizers(proof) for proof in proofs] == [True, False]


def test_for_a_method(proofs: list[Proof]) -> None:
    class Model:
        @tf_memsafe.function(memory_limit=CHAIN_LIMIT, optimizer_options=NO_CHAIN)
        def chain(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
            return chain(x, y)

    Model().chain(*ARGUMENTS)
    assert [optimizers(proof) & {"chain"} for proof in proofs] == [set()]
    assert not any("chain" in str(line) for line in explain(Model().chain, *ARGUMENTS).rewrites)


def test_for_the_gradient_of_a_function(proofs: list[Proof]) -> None:
    function = tf_memsafe.function(
        chain, memory_limit=CHAIN_LIMIT, optimizer_options=dict.fromkeys(NO_CHAIN, False)
    )
    x, y = map(tf.constant, ARGUMENTS)
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        result = function(x, y)
    assert all(gradient is not None for gradient in tape.gradient(result, [x, y]))
    assert len(proofs) == 2
    assert "chain" not in optimizers(proofs[0]) | optimizers(proofs[1])


def test_explain() -> None:
    def rewrites(function: Any, **options: Any) -> bool:
        report = explain(function, *ARGUMENTS, memory_limit=CHAIN_LIMIT, **options)
        return any(each.optimizer == "chain" for each in report.rewrites)

    assert rewrites(chain)
    assert not rewrites(chain, optimizer_options=NO_CHAIN)
    own = tf_memsafe.function(chain, optimizer_options=NO_CHAIN)
    assert not rewrites(own)
    assert rewrites(own, optimizer_options={"chain": True})
    tf_memsafe.set_optimizer_options(NO_CHAIN)
    assert not rewrites(chain)
    assert rewrites(chain, optimizer_options={"chain": True})


@pytest.mark.parametrize("options", [{"chains": False}, {"chain": 0}, ["chain"], "chain"])
def test_what_is_not_an_option(options: Any) -> None:
    message = r"not an optimizer; there are canonical, .*chain|True or False"
    with pytest.raises(ValueError, match=message):
        tf_memsafe.function(kernel, optimizer_options=options)
    with pytest.raises(ValueError, match=message):
        explain(kernel, *points_and_weights(), memory_limit=LIMIT, optimizer_options=options)
