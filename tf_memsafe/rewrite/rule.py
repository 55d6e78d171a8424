"""What a rewrite rule is: a function from a node to a better one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tf_memsafe.hlo.node import Node


@dataclass(frozen=True)
class Skip:
    """What a rule returns for a node that looked like its pattern: why it leaves it alone."""

    reason: str


Outcome = Node | Skip | None
"""The better node; or why there is none; or None, for a node that is not the rule's pattern."""


@dataclass
class Uses:
    """Who uses each value of the program: one entry for each operand that it is."""

    users: dict[Node, list[Node]] = field(default_factory=dict)
    results: set[Node] = field(default_factory=set)

    def only_user(self, node: Node) -> Node | None:
        """The node that alone uses this value, once; None if there are more, or if it is a result.

        A user is named as it was before the current pass over the graph.
        """
        users = self.users.get(node, [])
        return users[0] if len(users) == 1 and node not in self.results else None


@dataclass(frozen=True, eq=False)
class Rule:
    """A rewrite rule and the ops whose nodes it is tried on.

    summary: `before => after`, for people.
    """

    name: str
    summary: str
    ops: frozenset[str]
    apply: Callable[[Node, Uses], Outcome]


def rule(*ops: str) -> Callable[[Callable[[Node], Outcome]], Rule]:
    """Makes a rule, tried on nodes of these ops, of a function of the node.

    The first line of the function's docstring is its summary.
    """

    def decorate(function: Callable[[Node], Outcome]) -> Rule:
        return _make(function, lambda node, _uses: function(node), ops)

    return decorate


def rule_with_uses(*ops: str) -> Callable[[Callable[[Node, Uses], Outcome]], Rule]:
    """The same for a function of the node and of who uses what."""
    return lambda function: _make(function, function, ops)


def _make(
    function: Callable[..., Outcome], apply: Callable[[Node, Uses], Outcome], ops: Iterable[str]
) -> Rule:
    summary = (function.__doc__ or "").strip().partition("\n")[0].rstrip(".")
    if " => " not in summary:
        raise ValueError(f"{function.__name__}: the docstring has to start with `before => after`")
    return Rule(function.__name__, summary, frozenset(ops), apply)


@dataclass(frozen=True)
class Optimizer:
    """Rules that are switched on and off together, under one name."""

    name: str
    rules: tuple[Rule, ...]

    def by_op(self) -> Mapping[str, Sequence[Rule]]:
        """The rules to try on the nodes of each op, in order."""
        found: dict[str, list[Rule]] = {}
        for each in self.rules:
            for op in each.ops:
                found.setdefault(op, []).append(each)
        return found
