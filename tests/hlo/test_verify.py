from __future__ import annotations

from collections.abc import Callable

import pytest

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Graph, Node, Region, Source, make
from tf_memsafe.hlo.op import by_name
from tf_memsafe.hlo.types import TensorType
from tf_memsafe.hlo.verify import InvalidGraphError, verify

SCALAR, VECTOR, I32 = TensorType("f32"), TensorType("f32", (4,)), TensorType("i32")


def adder(dtype: str = "f32") -> Region:
    x, y = build.region_parameters([TensorType(dtype)] * 2)
    return Region((x, y), (build.add(x, y),))


def total(x: Node, region: Region) -> Node:
    attributes = {"dimensions": (0,)}
    return make(by_name("reduce"), (x, build.zeros(SCALAR)), SCALAR, attributes, (region,))


def counting_loop(x: Node, limit: int = 3) -> tuple[Node, ...]:
    """Adds x, a captured value, `limit` times."""
    counter, value = build.region_parameters([I32, x.tensor])
    condition = Region((counter, value), (build.compare(counter, build.index(limit), "LT"),))
    i, y = build.region_parameters([I32, x.tensor])
    body = Region((i, y), (build.add(i, build.index(1)), build.add(y, x)), (x,))
    return build.while_loop([build.index(0), build.zeros(x.tensor)], condition, body)


def test_accepts_a_program() -> None:
    (x,) = build.region_parameters([VECTOR])
    verify(Graph((x,), (build.add(x, x), total(x, adder()), counting_loop(x)[1], x)))


def test_accepts_a_graph_of_nothing() -> None:
    verify(Graph((), ()))


def wrong_type(x: Node) -> Node:
    return make(by_name("add"), (x, x), SCALAR)


def operands_of_two_shapes(x: Node) -> Node:
    return make(by_name("add"), (x, build.zeros(SCALAR)), VECTOR)


def tuple_as_a_tensor(x: Node) -> Node:
    barrier = build.emit("optimization_barrier", (x, x))
    return make(by_name("tanh"), (barrier,), VECTOR)


def element_of_a_tensor(x: Node) -> Node:
    return make(by_name("get_tuple_element"), (x,), VECTOR, {"index": 0})


def element_that_is_not_there(x: Node) -> Node:
    barrier = build.emit("optimization_barrier", (x, x))
    return make(by_name("get_tuple_element"), (barrier,), VECTOR, {"index": 2})


def reducer_of_another_dtype(x: Node) -> Node:
    return total(x, adder("f64"))


def reducer_of_one_parameter(x: Node) -> Node:
    (only,) = build.region_parameters([SCALAR])
    return total(x, Region((only,), (only,)))


def no_reducer(x: Node) -> Node:
    return make(by_name("tanh"), (x,), VECTOR, regions=(adder(),))


def foreign_parameter(x: Node) -> Node:
    return build.add(x, build.region_parameters([VECTOR])[0])


def capture_that_is_not_declared(x: Node) -> Node:
    outer = total(x, adder())
    a, b = build.region_parameters([SCALAR, SCALAR])
    return total(x, Region((a, b), (build.add(build.add(a, b), outer),)))


def inner_value_used_outside(x: Node) -> Node:
    region = adder()
    return build.add(total(x, region), region.results[0])


def condition_that_is_no_boolean(x: Node) -> Node:
    (state,) = build.region_parameters([VECTOR])
    return make(by_name("while"), (x,), VECTOR, regions=(Region((state,), (state,)),) * 2)


def branches_that_take_something(x: Node) -> Node:
    (state,) = build.region_parameters([VECTOR])
    flag = build.constant(True, TensorType("i1"))
    return make(by_name("if"), (flag,), VECTOR, regions=(Region((state,), (state,)),) * 2)


@pytest.mark.parametrize(
    ("make_node", "complaint"),
    [
        (wrong_type, r"the operands make it tensor<4xf32>"),
        (operands_of_two_shapes, "have to have one shape"),
        (tuple_as_a_tensor, "as if it were one tensor"),
        (element_of_a_tensor, "only one result"),
        (element_that_is_not_there, "index out of range"),
        (reducer_of_another_dtype, "the operands make it tensor<f64>"),
        (reducer_of_one_parameter, "its region takes"),
        (no_reducer, "1 regions, not 0"),
        (foreign_parameter, "belongs to another scope"),
        (capture_that_is_not_declared, "belongs to another scope"),
        (inner_value_used_outside, "belongs to another scope"),
        (condition_that_is_no_boolean, "its region returns"),
        (branches_that_take_something, "its region takes"),
    ],
)
def test_refuses(make_node: Callable[[Node], Node], complaint: str) -> None:
    (x,) = build.region_parameters([VECTOR])
    with pytest.raises(InvalidGraphError, match=complaint):
        verify(Graph((x,), (make_node(x),)))


def test_looks_inside_regions() -> None:
    (x,) = build.region_parameters([VECTOR])
    a, b = build.region_parameters([SCALAR, SCALAR])
    bad = make(by_name("add"), (a, build.zeros(VECTOR)), SCALAR)
    with pytest.raises(InvalidGraphError) as raised:
        verify(Graph((x,), (total(x, Region((a, b), (bad,))),)))
    assert raised.value.node is bad


def test_a_parameter_is_declared_once() -> None:
    (x,) = build.region_parameters([VECTOR])
    with pytest.raises(InvalidGraphError, match="declared twice"):
        verify(Graph((x, x), (x,)))


def test_a_parameter_is_a_parameter() -> None:
    (x,) = build.region_parameters([VECTOR])
    with pytest.raises(InvalidGraphError, match="is none"):
        verify(Graph((build.add(x, x),), (x,)))


def test_names_the_node_and_where_it_came_from() -> None:
    (x,) = build.region_parameters([VECTOR])
    bad = make(by_name("tanh"), (x,), SCALAR, source=Source("Tanh", "model/tanh"))
    with pytest.raises(InvalidGraphError, match=r"tanh\(parameter: .*from 'model/tanh'"):
        verify(Graph((x,), (bad,)))
