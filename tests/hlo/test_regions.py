from __future__ import annotations

from tests.hlo.running import run
from tests.hlo.test_verify import VECTOR, counting_loop
from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node
from tf_memsafe.hlo.regions import change_regions
from tf_memsafe.hlo.verify import verify


def loop_over_a_capture() -> tuple[Node, Node]:
    """A parameter x, and a loop that adds -x three times."""
    (x,) = build.region_parameters([VECTOR])
    loop = counting_loop(build.emit("negate", (x,)))[1].operands[0]
    return x, loop


def test_a_region_is_a_program_and_its_captures_are_parameters() -> None:
    _, loop = loop_over_a_capture()
    seen: list[Graph] = []

    def look(graph: Graph) -> Graph:
        verify(graph)
        seen.append(graph)
        return graph

    assert change_regions(loop, look) is loop
    condition, body = seen
    assert len(condition.parameters) == 2
    assert [parameter.name for parameter in body.parameters] == ["parameter"] * 3


def test_a_changed_region_captures_what_it_did() -> None:
    x, loop = loop_over_a_capture()

    def doubled(graph: Graph) -> Graph:
        """The values that are added up, twice."""
        counter, *values = graph.outputs
        twice = tuple(build.add(value, value) for value in values)
        return Graph(graph.parameters, (counter, *twice))

    changed = change_regions(loop, doubled)
    assert changed.regions[1].captures == loop.regions[1].captures
    graph = Graph((x,), (build.results(changed)[1],))
    verify(graph)
    (result,) = run(graph, [[1.0, 2.0, 3.0, 4.0]])
    assert result.tolist() == [-14.0, -28.0, -42.0, -56.0]  # 2 (2 (2 (0 - x) - x) - x)
