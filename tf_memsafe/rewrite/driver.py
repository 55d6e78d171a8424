"""Applies the rules of an optimizer to a graph until none of them fires."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tf_memsafe.hlo.node import Graph, Node, Region
from tf_memsafe.hlo.order import topological
from tf_memsafe.hlo.rebuild import remake
from tf_memsafe.hlo.regions import change_regions
from tf_memsafe.hlo.verify import verify
from tf_memsafe.rewrite.rule import Optimizer, Rule, Skip, Uses

MOST_PASSES = 100
"""Passes over the graph after which the rules of an optimizer are taken to undo each other."""

MOST_PRICED = 200
"""Nodes that are looked at to tell how large what a rule replaced was."""

SCOPES = {"case", "if", "while"}
"""Ops whose regions are programs of their own; those of other ops work on scalars."""


@dataclass(frozen=True)
class Rewrite:
    """A rule that fired: on which node, and the largest tensor it took before and takes now."""

    optimizer: str
    rule: str
    summary: str
    node: Node
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True)
class Refusal:
    """A node that looked like a rule's pattern, and why the rule left it alone."""

    optimizer: str
    rule: str
    summary: str
    node: Node
    reason: str


@dataclass(frozen=True)
class Rewritten:
    """A graph after rewriting, what fired on the way, and what was refused in the end."""

    graph: Graph
    rewrites: tuple[Rewrite, ...] = ()
    refusals: tuple[Refusal, ...] = ()

    def after(self, earlier: Rewritten) -> Rewritten:
        """The same with what fired and was refused earlier."""
        rewrites = (*earlier.rewrites, *self.rewrites)
        return Rewritten(self.graph, rewrites, (*earlier.refusals, *self.refusals))


def apply(optimizer: Optimizer, graph: Graph) -> Rewritten:
    """The graph with the optimizer's rules applied to a fixpoint, verified if any fired.

    The regions inside nodes are left as they are.
    """
    rewrites: list[Rewrite] = []
    for _ in range(MOST_PASSES):
        one = _Pass(optimizer)
        following = one.run(graph)
        rewrites += one.rewrites
        if not one.rewrites:
            if rewrites:
                verify(graph)
            return Rewritten(graph, tuple(rewrites), tuple(one.refusals))
        graph = following
    raise RuntimeError(f"the rules of {optimizer.name} undo each other: {one.rewrites[-1]}")


def apply_everywhere(optimizer: Optimizer, graph: Graph) -> Rewritten:
    """`apply`, and before it the same in the regions of loops and branches."""
    if not _occurs(optimizer.by_op(), graph):
        return Rewritten(graph)
    inside = Rewritten(graph)

    def change(region: Graph) -> Graph:
        nonlocal inside
        changed = apply_everywhere(optimizer, region)
        inside = changed.after(inside)
        return changed.graph

    new: dict[Node, Node] = {}
    for node in topological(graph.outputs):
        remade = remake(node, new)
        new[node] = change_regions(remade, change) if node.name in SCOPES else remade
    outputs = tuple(new[output] for output in graph.outputs)
    return apply(optimizer, Graph(graph.parameters, outputs)).after(inside)


def _occurs(ops: Collection[str], graph: Graph) -> bool:
    """Whether a node of one of these ops is in the graph, or inside its loops and branches."""
    stack = [Region(graph.parameters, graph.outputs)]
    while stack:
        region = stack.pop()
        for node in topological(region.results, region.captures):
            if node.name in ops:
                return True
            if node.name in SCOPES:
                stack += node.regions
    return False


class _Pass:
    """One pass over the graph, operands before their users."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self._rules = optimizer.by_op()
        self._new: dict[Node, Node] = {}
        self._made: set[Node] = set()
        self._uses = Uses()
        self.rewrites: list[Rewrite] = []
        self.refusals: list[Refusal] = []

    def run(self, graph: Graph) -> Graph:
        nodes = topological(graph.outputs)
        users: dict[Node, list[Node]] = {node: [] for node in nodes}
        for node in nodes:
            for dependency in node.dependencies:
                users[dependency].append(node)
        self._uses = Uses({node: list(each) for node, each in users.items()}, {*graph.outputs})
        for node in nodes:
            remade = remake(node, self._new)
            if remade is not node:
                self._know(remade, users[node], node in graph.outputs)
            better = self._better(remade)
            if better is not remade:
                self._know(better, users[node], node in graph.outputs)
            self._new[node] = better
            self._made.add(better)
        return Graph(graph.parameters, tuple(self._new[output] for output in graph.outputs))

    def _know(self, node: Node, users: list[Node], is_result: bool) -> None:
        self._uses.users.setdefault(node, []).extend(users)
        if is_result:
            self._uses.results.add(node)

    def _better(self, node: Node) -> Node:
        """What the first rule that fires makes of a node; itself if none does."""
        for each in self._rules.get(node.name, ()):
            outcome = each.apply(node, self._uses)
            if isinstance(outcome, Skip):
                self.refusals.append(
                    Refusal(self._optimizer.name, each.name, each.summary, node, outcome.reason)
                )
            elif outcome is not None and outcome is not node:
                self._record(each, node, outcome)
                return outcome
        return node

    def _record(self, fired: Rule, node: Node, better: Node) -> None:
        made = list(_made_for(better, self._made))
        for new in made:
            # What has no operands, a constant say, is shared with other programs.
            if new.source is None and new.operands:
                new.source = node.source
        kept = {operand for new in made for operand in new.operands} | {better}
        replaced = _made_for(node, kept - set(made))
        self.rewrites.append(
            Rewrite(
                self._optimizer.name,
                fired.name,
                fired.summary,
                node,
                max((old.type.bytes for old in replaced), default=node.type.bytes),
                max((new.type.bytes for new in made), default=better.type.bytes),
            )
        )


def _made_for(root: Node, known: Collection[Node]) -> Iterator[Node]:
    """The root and what it is made of, down to the values that are known."""
    seen: set[Node] = set()
    stack = [root]
    while stack and len(seen) < MOST_PRICED:
        node = stack.pop()
        if node in seen or node in known:
            continue
        seen.add(node)
        yield node
        stack.extend(node.operands)
