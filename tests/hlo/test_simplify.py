"""What changes nothing is dropped, inside loops and branches as well."""

from __future__ import annotations

from tests.rewrite.rewriting import shown
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node, Region
from tf_memsafe.hlo.simplify import one_reshape, simplify, unchanged
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.hlo.verify import verify

VECTOR = TensorType("f32", (6,))


def around(x: Node) -> Node:
    """x, reshaped to a matrix, to a cube and back."""
    cube = build.reshape(build.reshape(x, (2, 3)), (1, 2, 3))
    return build.reshape(cube, x.shape)


def test_views_of_a_value_as_itself_are_dropped() -> None:
    (x,) = build.region_parameters([VECTOR])
    graph = simplify(Graph((x,), (around(x), build.emit("tanh", (around(x),)))))
    assert graph.outputs == (x, build.emit("tanh", (x,)))


def test_one_reshape_stands_for_several() -> None:
    (x,) = build.region_parameters([VECTOR])
    cube = build.reshape(build.reshape(build.reshape(x, (2, 3)), (3, 2)), (1, 2, 3))
    assert simplify(Graph((x,), (cube,))).outputs == (build.reshape(x, (1, 2, 3)),)


def test_inside_a_loop_too() -> None:
    (x,) = build.region_parameters([VECTOR])
    state = build.region_parameters([VECTOR])
    always = build.constant(True, TensorType("i1"))
    # The body uses x directly.
    body = Region(state, (build.add(around(*state), around(x)),), (x,))
    loop = build.while_loop((x,), Region(state, (always,)), body)
    graph = simplify(Graph((x,), loop))
    verify(graph)
    assert any("reshape" in line for line in _all_lines(Graph((x,), loop)))
    assert not any("reshape" in line for line in _all_lines(graph))


def _all_lines(graph: Graph) -> list[str]:
    loop = graph.outputs[0]
    inside = loop if loop.regions else loop.operands[0]
    region = inside.regions[1]
    return shown(Graph((*region.parameters, *region.captures), region.results))


def test_what_a_single_node_shows() -> None:
    (x,) = build.region_parameters([VECTOR])
    assert unchanged(build.emit("reshape", (x,), type=VECTOR)) is x
    assert unchanged(build.emit("tanh", (x,))) is None
    assert unchanged(build.emit("reverse", (x,), {"dimensions": (0,)})) is None
    assert one_reshape(build.reshape(x, (2, 3))) is None
