"""A report for TensorBoard: text, picture and graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tf_memsafe.hlo.node import Graph, Node, Region
from tf_memsafe.hlo.order import topological
from tf_memsafe.report import figure

AttrValue = tf.compat.v1.AttrValue
SummaryMetadata = tf.compat.v1.SummaryMetadata
TensorShapeProto = type(tf.TensorShape([]).as_proto())

if TYPE_CHECKING:
    from tf_memsafe.report.content import Report
    from tf_memsafe.report.program import Program


def write(report: Report, program: Program | None, writer: Any, step: int) -> None:
    """See `Report.to_summary`."""
    with writer.as_default(step), tf.summary.record_if(True):
        # Indented by four, TensorBoard's Markdown keeps the text as it is.
        text = "\n".join(f"    {line}" for line in str(report).splitlines())
        _write(f"tf_memsafe/{report.name}", text, "text", "DATA_CLASS_TENSOR")
        if figure.can_plot(program):
            drawn = figure.plot(report, program)
            width, height = (f"{round(inches * figure.DPI)}" for inches in drawn.get_size_inches())
            image = [width, height, figure.image(drawn, "png")]
            name = f"tf_memsafe/{report.name}/memory"
            _write(name, image, "images", "DATA_CLASS_BLOB_SEQUENCE")
        if program is not None and program.used.graph is not None:
            tf.summary.graph(graph_def(program.used.graph))
    writer.flush()


def _write(tag: str, data: Any, plugin: str, kind: str) -> None:
    """As `tf.summary.text` and `tf.summary.image` do, which need TensorBoard to be installed."""
    metadata = SummaryMetadata(data_class=kind)
    metadata.plugin_data.plugin_name = plugin
    tf.summary.write(tag, tf.constant(data), metadata=metadata)


def graph_def(graph: Graph) -> tf.compat.v1.GraphDef:
    """A graph as TensorBoard draws it; what is inside a loop or a reducer is in its scope."""
    drawing = _Drawing()
    drawing.region(Region(graph.parameters, graph.outputs), {}, "")
    return drawing.definition


class _Drawing:
    def __init__(self) -> None:
        self.definition = tf.compat.v1.GraphDef()

    def region(self, region: Region, outer: Mapping[Node, str], scope: str) -> None:
        names = {node: outer[node] for node in region.captures}
        for node in (*region.parameters, *topological(region.results, {*region.captures})):
            if node.name == "get_tuple_element":
                names[node] = f"{names[node.operands[0]]}:{node['index']}"
            elif node not in names:
                names[node] = self._node(node, names, scope)

    def _node(self, node: Node, names: Mapping[Node, str], scope: str) -> str:
        name = f"{scope}{node.name}_{len(self.definition.node)}"
        shapes = [TensorShapeProto(dim=map(_dimension, type_.shape)) for type_ in node.results]
        self.definition.node.add(
            name=name,
            op=node.name,
            input=[names[operand] for operand in node.operands],
            attr={"_output_shapes": AttrValue(list=AttrValue.ListValue(shape=shapes))},
        )
        for number, region in enumerate(node.regions):
            self.region(region, names, f"{name}/region_{number}/")
        return name


def _dimension(size: int) -> Any:
    return TensorShapeProto.Dim(size=size)
