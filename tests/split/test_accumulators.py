"""What a loop sums and fills is changed where it is: XLA does not copy it in each chunk."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import pytest
import tensorflow as tf

from tests.split.functions import attention, gradient_of, kernel_times_vector
from tests.split.planning import floats
from tf_memsafe import xla
from tf_memsafe.proof import prove
from tf_memsafe.rewrite.options import get_optimizer_options

HEADS = (floats(4, 600, 16),) * 3
KERNEL = floats(2000, 3), floats(3), floats(2000, 4)

LARGE = 1000
"""Elements: the smallest of what these loops sum or fill has more."""


def large_copies(text: str) -> Iterator[str]:
    """The copies in an optimised program, but for those of its outermost computation."""
    inside, _, _ = text.partition("\nENTRY ")
    for line in inside.splitlines():
        if found := re.search(r"= \w+\[([\d,]*)\]\S* copy\(", line):
            sizes = [int(size) for size in found[1].split(",") if size]
            if prod(sizes) >= LARGE:
                yield line.strip()


@pytest.mark.parametrize(
    ("function", "specs", "limit"),
    [
        (kernel_times_vector, KERNEL, 2_000_000),
        (gradient_of(kernel_times_vector), KERNEL, 4_000_000),
        (attention, HEADS, 3_000_000),
        (gradient_of(attention), HEADS, 5_000_000),
    ],
    ids=["kernel", "kernel gradient", "attention", "attention gradient"],
)
def test_nothing_large_is_copied_in_a_loop(
    function: Callable[..., Any], specs: tuple[tf.TensorSpec, ...], limit: int
) -> None:
    concrete = tf.function(function, jit_compile=True).get_concrete_function(*specs)
    proof = prove(concrete, specs, limit, get_optimizer_options())
    assert proof.split is not None
    assert proof.split.loops
    assert proof.executable is not None
    program = proof.executable.function
    types = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in program.inputs]
    text = xla.optimized_hlo(program, types)
    assert " while(" in text
    assert [*large_copies(text)] == []
