"""canonical: one spelling of each thing, so that the other optimizers need to know only one.

All rules are exact, to the last bit. Where a sum is laid out otherwise, XLA may add it up in
another order.
"""

from __future__ import annotations

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.rewrite import canonical_motion as motion
from tf_memsafe.rewrite import canonical_products as products
from tf_memsafe.rewrite import canonical_views as views
from tf_memsafe.rewrite.canonical_order import sorted_prefix
from tf_memsafe.rewrite.maths import filled, is_widening, repeated_value, repeats
from tf_memsafe.rewrite.rule import Optimizer, Outcome, rule
from tf_memsafe.rewrite.value_range import decided_comparison

# --- conversions --------------------------------------------------------------------------------


@rule("convert")
def convert_twice(node: Node) -> Outcome:
    """convert(convert(x)) => convert(x), if the inner conversion loses nothing"""
    inner = node.operands[0]
    if inner.name != "convert" or not is_widening(inner.operands[0].dtype, inner.dtype):
        return None
    return build.convert(inner.operands[0], node.dtype)


# --- arithmetic ---------------------------------------------------------------------------------


@rule("power")
def small_power(node: Node) -> Outcome:
    """power(x, 2) => x * x, and power(x, 1) => x"""
    x, exponent = node.operands
    if node.dtype.startswith("complex"):
        return None
    if repeats(exponent, 2):
        return build.multiply(x, x)
    return x if repeats(exponent, 1) else None


@rule("add")
def doubled(node: Node) -> Outcome:
    """x + x => 2 * x, as the gradient of x * x has it"""
    x, y = node.operands
    if x is not y or node.dtype.startswith("complex") or node.dtype == "i1":
        return None
    return build.multiply(filled(2, x, x.shape), x)


NEUTRAL = {
    "multiply": ("1", "1.0"),
    "divide": ("1", "1.0"),
    "subtract": ("0", "0.0"),
    "add": ("0", "-0.0"),
}
"""The second operands that change nothing. Not x - (-0.0), nor x + 0.0: -0.0 becomes 0.0."""


@rule(*NEUTRAL)
def neutral(node: Node) -> Outcome:
    """x * 1 => x, and x / 1, and x - 0"""
    x, y = node.operands
    if node.dtype.startswith("complex") or node.dtype == "i1":
        return None
    if str(repeated_value(y)) in NEUTRAL[node.name]:
        return x
    commutes = node.name in ("multiply", "add")
    return y if commutes and str(repeated_value(x)) in NEUTRAL[node.name] else None


@rule("negate", "not")
def negated_twice(node: Node) -> Outcome:
    """-(-x) => x"""
    inner = node.operands[0]
    return inner.operands[0] if inner.name == node.name else None


@rule("and", "or")
def settled(node: Node) -> Outcome:
    """x & x => x, and x & true, and x | false"""
    x, y = node.operands
    if x is y:
        return x
    if node.dtype != "i1":
        return None
    unit = node.name == "and"
    if repeated_value(y) is unit:
        return x
    return y if repeated_value(x) is unit else None


@rule("select")
def chosen(node: Node) -> Outcome:
    """select(true, x, y) => x"""
    predicate, x, y = node.operands
    value = repeated_value(predicate)
    if value is None:
        return x if x is y else None
    return x if value else y


CANONICAL = Optimizer(
    "canonical",
    (
        views.no_op,
        views.reshape_twice,
        views.transpose_twice,
        views.transpose_of_ones,
        views.slice_twice,
        views.sum_of_one,
        views.repeated_constant,
        views.broadcast_twice,
        views.broadcast_of_ones,
        views.reshape_of_broadcast,
        views.transpose_of_broadcast,
        views.slice_of_broadcast,
        convert_twice,
        small_power,
        doubled,
        neutral,
        negated_twice,
        settled,
        chosen,
        decided_comparison,
        views.computed_once,
        motion.reshape_of_operands,
        motion.transpose_of_operands,
        motion.split_of_result,
        sorted_prefix,
        motion.slice_of_concatenate,
        motion.slice_of_result,
        products.transposed_factor,
        products.transposed_product,
        products.merged_axes,
        products.nothing_summed,
        products.reduction_of_transpose,
        products.reduction_of_reshape,
        products.reduction_of_broadcast,
    ),
)
