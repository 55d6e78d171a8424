"""chain: matrix products, triangular solves and scalar factors in the order that takes least."""

from __future__ import annotations

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.rewrite.chain_links import VIEWS, Link, multiply
from tf_memsafe.rewrite.chain_plan import Order, Plan, plan_chain, span_of
from tf_memsafe.rewrite.chain_reader import MOST_LINKS, PRODUCTS, Chain
from tf_memsafe.rewrite.chain_scale import scale_of
from tf_memsafe.rewrite.maths import DEFAULT_PRECISION
from tf_memsafe.rewrite.rule import Optimizer, Outcome, Skip, Uses, rule_with_uses


@rule_with_uses("dot_general", "triangular_solve", "multiply", "divide", "negate")
def reassociate(node: Node, uses: Uses) -> Outcome:
    """(A @ B) @ v => A @ (B @ v), and any other chain in the order that takes least

    A triangular solve is a product with an inverse: (L^-1 A) v => L^-1 (A v). Scalar factors,
    divisors and signs go to the smallest operand. What is used elsewhere too is taken as computed
    already; ties keep the user's order.

    Exact but for rounding, and for what overflows or underflows in one order and not in the other.
    An infinity may become NaN, or NaN an infinity, where a scalar is infinite, a divisor or an
    element on the diagonal of a triangle is 0, or a factor has infinities.
    """
    if node.name not in PRODUCTS and scale_of(node) is None:
        return None
    products = Chain(node, uses, levels=1).products
    if not products or _is_part_of_a_chain(node, products[0], uses):
        return None
    chain = Chain(node, uses)
    if len(chain.links) < 3 and not chain.scales:
        return _obstacle(chain)
    if node.dtype == "f16":
        return Skip("an f16 may overflow in one order and not in the other")
    if len(chain.links) > MOST_LINKS:
        return Skip(f"a chain of {len(chain.links)}, more than {MOST_LINKS}, is not planned")
    plan = plan_chain(chain.sizes(), chain.order)
    if plan.scaled is None:
        return _obstacle(chain) or Skip(f"no order of the {len(chain.links)} factors takes less")
    return _written(chain, plan)


def _is_part_of_a_chain(node: Node, product: Node, uses: Uses) -> bool:
    """Whether the product in a node is part of a longer chain, whose last product is further on."""
    user = uses.only_user(node)
    while user is not None and user.name in VIEWS:
        user = uses.only_user(user)
    if user is None or (user.name not in PRODUCTS and scale_of(user) is None):
        return False
    # The user is as it was before this pass: under it is the product as it was then.
    return any(
        each is not user
        and (each.op, each.type, each.attributes) == (product.op, product.type, product.attributes)
        for each in Chain(user, uses, levels=2).products
    )


def _obstacle(chain: Chain) -> Skip | None:
    """Why the chain ends at something that is made of products; None if it does not."""
    for node in (link.node for link in chain.links):
        if node.name in PRODUCTS:
            return Skip("the products differ in dtype, precision or the axes of a stack")
        if node.name == "reshape" and _is_product(node):
            return Skip("a reshape between the products splits or merges axes")
        if node.name == "convert" and _is_product(node.operands[0]):
            return Skip(f"a product is rounded to {node.operands[0].dtype} on the way")
        if node.name in ("add", "subtract") and all(map(_is_product, node.operands)):
            return Skip("a sum of products is not multiplied out")
    return None


def _is_product(node: Node) -> bool:
    while node.name in VIEWS:
        node = node.operands[0]
    return node.name in PRODUCTS


def _written(chain: Chain, plan: Plan) -> Node:
    """The nodes that compute a chain as planned, with the axes of its root."""
    link = _product(chain, plan, plan.order)
    others = [axis for axis in link.axes if axis not in chain.axes]  # of one element
    own = [axis for axis in chain.axes if axis in link.axes]  # those it has not, too
    return build.reshape(link.arranged([*others, *own]).node, chain.root.shape)


def _product(chain: Chain, plan: Plan, order: Order) -> Link:
    span = span_of(order)
    if isinstance(order, int):
        link = chain.links[order]
    elif span in chain.there:
        link = chain.there[span].link
    else:
        right = _product(chain, plan, order[1])
        if plan.mirrored and order is plan.order:
            left = chain.mirrored(right)
        else:
            left = _product(chain, plan, order[0])
        link = multiply(left, right, chain.summed, chain.precision or DEFAULT_PRECISION)
    if span == plan.scaled:
        for scale in plan.scales:
            link = chain.scales[scale].applied(link)
    return link


CHAIN = Optimizer("chain", (reassociate,))
