"""Orders in which to visit nodes: operands first, without recursion."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from tf_memsafe.hlo.node import Node


def topological(roots: Iterable[Node], known: Collection[Node] = ()) -> list[Node]:
    """The nodes of one scope that `roots` need, operands and captures before their users.

    `known` nodes, and what only they need, are left out. A region's inside is a scope of its own.
    """
    ordered: list[Node] = []
    seen: set[Node] = set()  # not a copy of `known`, which may be large and asked of often
    for root in roots:
        if root in seen or root in known:
            continue
        seen.add(root)
        stack: list[tuple[Node, Iterator[Node]]] = [(root, iter(root.dependencies))]
        while stack:
            node, pending = stack[-1]
            for following in pending:
                if following not in seen and following not in known:
                    seen.add(following)
                    stack.append((following, iter(following.dependencies)))
                    break
            else:
                ordered.append(node)
                stack.pop()
    return ordered


def users(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """For each node, the nodes of the same scope that use it, in order."""
    found: dict[Node, list[Node]] = {}
    for node in nodes:
        found.setdefault(node, [])
        for dependency in dict.fromkeys(node.dependencies):
            found.setdefault(dependency, []).append(node)
    return found
