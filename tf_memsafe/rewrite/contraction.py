"""contraction: a broadcast product that is summed is a matrix product."""

from __future__ import annotations

from tf_memsafe.hlo.node import Node
from tf_memsafe.rewrite.maths import is_sum
from tf_memsafe.rewrite.product import read_factors, sum_of, write_sum
from tf_memsafe.rewrite.rule import Optimizer, Outcome, Skip, rule

SMALLEST_INNER_SIZE = 4
"""Of a matrix product. XLA's CPU back end runs smaller ones on one thread, 3 times slower than the
sum of a broadcast product (DESIGN, section 2)."""


@rule("reduce")
def sum_of_broadcast_product(node: Node) -> Outcome:
    """sum(x[:, None, :] * y[None, :, :], -1) => x @ transpose(y), with any axes and factors

    Exact but for rounding, and for what overflows in one order and not in the other. A factor that
    does not vary along a summed axis is multiplied after the sum, so that an infinite one gives an
    infinity where infinities of both signs, added up, gave NaN.
    """
    product = node.operands[0]
    if not is_sum(node) or product.name not in ("multiply", "divide", "negate"):
        return None
    factors = read_factors(product)
    if factors is None:
        return Skip("it has too many factors")
    total = sum_of(factors, product.shape, node["dimensions"])
    if total is None or total.largest >= product.tensor.size:
        return None
    if node.dtype in ("f16", "bf16"):
        return Skip(f"products of {node.dtype} are rounded before they are added up")
    if any(size < SMALLEST_INNER_SIZE for size in total.inner_sizes):
        small = min(total.inner_sizes)
        return Skip(f"an inner size of {small} is faster as a sum of a broadcast product")
    return write_sum(total)


CONTRACTION = Optimizer("contraction", (sum_of_broadcast_product,))
