"""When limits hold: in which calls, for how long, in which threads; no hook is left behind."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import tensorflow as tf

import tf_memsafe
from tests.programs import LIMIT, POINTS, assert_same, compiled, kernel, points_and_weights
from tf_memsafe.executable import Executable
from tf_memsafe.proof import Proof
from tf_memsafe.xla import ConcreteFunction

Runs = list[Executable]
ORIGINAL = ConcreteFunction._call_flat


def is_hooked() -> bool:
    return ConcreteFunction._call_flat is not ORIGINAL


@pytest.fixture(autouse=True)
def hook_removed() -> Iterator[None]:
    """Whatever a test did, without a limit TensorFlow is itself again."""
    yield
    tf_memsafe.set_memory_limit(None)
    assert not is_hooked()


# --- set_memory_limit ---


def test_setting_and_removing_the_limit(rewritten_runs: Runs) -> None:
    function, arguments = compiled(kernel), points_and_weights()
    assert tf_memsafe.get_memory_limit() is None
    tf_memsafe.set_memory_limit("40 kB")
    assert tf_memsafe.get_memory_limit() == LIMIT
    assert is_hooked()
    function(*arguments)
    assert len(rewritten_runs) == 1
    tf_memsafe.set_memory_limit(None)
    assert tf_memsafe.get_memory_limit() is None
    assert not is_hooked()
    function(*arguments)
    assert len(rewritten_runs) == 1


def test_setting_the_limit_again_replaces_it() -> None:
    for limit in (1_000, "2kB", "auto", 4_000):
        tf_memsafe.set_memory_limit(limit)
    assert tf_memsafe.get_memory_limit() == 4_000
    tf_memsafe.set_memory_limit(None)
    tf_memsafe.set_memory_limit(None)
    assert not is_hooked()


@pytest.mark.parametrize("limit", [0, -1, "8", "lots", 1.5, True, [8]], ids=repr)
def test_an_invalid_limit_leaves_the_old_one(limit: Any) -> None:
    tf_memsafe.set_memory_limit(LIMIT)
    with pytest.raises(ValueError, match=r'is not a memory limit.*"800MB"'):
        tf_memsafe.set_memory_limit(limit)
    assert tf_memsafe.get_memory_limit() == LIMIT
    with pytest.raises(ValueError, match="is not a memory limit"), tf_memsafe.memory_limit(limit):
        pass
    assert tf_memsafe.get_memory_limit() == LIMIT


def test_the_limit_holds_in_all_threads(rewritten_runs: Runs) -> None:
    function, arguments = compiled(kernel), points_and_weights()
    tf_memsafe.set_memory_limit(LIMIT)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(function, *arguments).result()
    assert len(rewritten_runs) == 1


def test_a_program_is_made_once_for_all_threads(rewritten_runs: Runs, proofs: list[Proof]) -> None:
    function, arguments = compiled(kernel), points_and_weights()
    expected = function(*arguments)
    tf_memsafe.set_memory_limit(LIMIT)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: function(*arguments), range(8)))
    for result in results:
        assert_same(result, expected)
    assert len(rewritten_runs) == 8
    assert len(proofs) == 1


def test_a_function_is_freed_with_all_that_was_made_of_it() -> None:
    function, (x, v) = compiled(kernel), points_and_weights()
    concrete = weakref.ref(function.get_concrete_function(x, v))
    with tf_memsafe.memory_limit(LIMIT), tf.GradientTape() as tape:
        tape.watch(v)
        y = function(x, v)
    assert tape.gradient(y, v) is not None
    del function, tape, y
    gc.collect()
    assert concrete() is None


# --- memory_limit ---


def test_blocks_nest() -> None:
    seen = []
    with tf_memsafe.memory_limit("1kB"):
        with tf_memsafe.memory_limit("2kB"), tf_memsafe.memory_limit(None):
            seen.append(tf_memsafe.get_memory_limit())
        seen.append(tf_memsafe.get_memory_limit())
        assert is_hooked()
    assert seen == [None, 1_000]
    assert not is_hooked()


def test_the_innermost_block_holds(rewritten_runs: Runs) -> None:
    function, arguments = compiled(kernel), points_and_weights()
    tf_memsafe.set_memory_limit("10MB")
    with tf_memsafe.memory_limit(LIMIT):
        function(*arguments)
        with tf_memsafe.memory_limit(None):
            function(*arguments)
        assert len(rewritten_runs) == 1
    function(*arguments)
    assert len(rewritten_runs) == 1
    assert tf_memsafe.get_memory_limit() == 10_000_000


def test_a_block_ends_with_an_exception() -> None:
    with pytest.raises(KeyError), tf_memsafe.memory_limit(LIMIT):
        raise KeyError
    assert tf_memsafe.get_memory_limit() is None
    assert not is_hooked()


def test_a_block_outlives_the_process_limit(rewritten_runs: Runs) -> None:
    function, arguments = compiled(kernel), points_and_weights()
    tf_memsafe.set_memory_limit("10MB")
    with tf_memsafe.memory_limit(LIMIT):
        tf_memsafe.set_memory_limit(None)
        function(*arguments)
    assert len(rewritten_runs) == 1
    assert not is_hooked()


def test_a_block_is_for_one_thread(rewritten_runs: Runs) -> None:
    function, arguments = compiled(kernel), points_and_weights()
    seen: list[int | None] = []

    def call() -> None:
        seen.append(tf_memsafe.get_memory_limit())
        function(*arguments)

    with tf_memsafe.memory_limit(LIMIT):
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    assert seen == [None]
    assert rewritten_runs == []


# --- calls that go through unharmed ---


def test_a_call_inside_of_another_function() -> None:
    inner, (x, v) = compiled(kernel), points_and_weights()
    outer = tf.function(lambda x, v: 2 * inner(x, v))
    with tf_memsafe.memory_limit(LIMIT):
        found = outer(x, v)
        with tf.GradientTape() as tape:
            tape.watch(v)
            y = outer(x, v)
        gradient = tape.gradient(y, v)
    assert_same(found, 2 * kernel(x, v))
    assert gradient.shape == v.shape


def test_a_compiled_function_is_cut_with_all_it_calls(rewritten_runs: Runs) -> None:
    inner, (x, v) = tf.function(kernel), points_and_weights()
    outer = compiled(lambda x, v: 2 * inner(x, v))
    with tf_memsafe.memory_limit(LIMIT):
        assert_same(outer(x, v), 2 * kernel(x, v))
    assert len(rewritten_runs) == 1


def test_a_first_call_that_traces_under_the_limit(rewritten_runs: Runs) -> None:
    """TensorFlow traces a function that makes variables twice."""
    made: list[tf.Variable] = []

    @tf.function(jit_compile=True)
    def function(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        if not made:
            made.append(tf.Variable(2.0, dtype=tf.float64))
        return made[0] * kernel(x, v)

    x, v = points_and_weights()
    with tf_memsafe.memory_limit(LIMIT):
        for _ in range(2):
            assert_same(function(x, v), 2 * kernel(x, v))
    assert rewritten_runs


def test_functions_that_run_eagerly(rewritten_runs: Runs) -> None:
    function, (x, v) = compiled(kernel), points_and_weights()
    tf.config.run_functions_eagerly(True)
    with tf_memsafe.memory_limit(LIMIT):
        assert_same(function(x, v), kernel(x, v))
    assert rewritten_runs == []


def test_mapped_over_a_data_set() -> None:
    function, (x, v) = compiled(kernel), points_and_weights()
    with tf_memsafe.memory_limit(LIMIT):
        (found,) = tf.data.Dataset.from_tensors((x, v)).map(function)
    assert_same(found, kernel(x, v))


@pytest.mark.parametrize("parallel", [True, False])
def test_jacobians(parallel: bool) -> None:
    function, (x, v) = compiled(kernel), points_and_weights()

    def jacobian() -> tf.Tensor:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(v)
            y = function(x, v)[:2, 0]
        return tape.jacobian(y, v, experimental_use_pfor=parallel)

    expected = jacobian()
    with tf_memsafe.memory_limit(LIMIT):
        assert_same(jacobian(), expected)


def test_random_numbers_of_the_user_stay_the_same() -> None:
    function, x = compiled(lambda x: tf.exp(x @ tf.transpose(x)) @ x), tf.constant(POINTS)
    tf.random.set_seed(1)
    expected = tf.random.normal([3])
    tf.random.set_seed(1)
    with tf_memsafe.memory_limit(LIMIT):
        function(x)
    assert_same(tf.random.normal([3]), expected)
