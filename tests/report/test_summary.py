"""A report in TensorBoard's files."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

from tests.report import reports


def test_text_picture_and_graph(tmp_path: Path) -> None:
    report = reports.cut()
    report.to_summary(tf.summary.create_file_writer(str(tmp_path)), step=3)
    (file,) = tmp_path.iterdir()
    events = [*tf.compat.v1.train.summary_iterator(str(file))]
    values = {value.tag: (event.step, value) for event in events for value in event.summary.value}
    step, text = values["tf_memsafe/kernel"]
    assert step == 3
    assert text.metadata.plugin_data.plugin_name == "text"
    assert b"loop over an axis of 100" in tf.make_ndarray(text.tensor).item()
    _, image = values["tf_memsafe/kernel/memory"]
    assert image.metadata.plugin_data.plugin_name == "images"
    (graph,) = [event.graph_def for event in events if event.graph_def]
    nodes = {node.name: node for node in tf.compat.v1.GraphDef.FromString(graph).node}
    assert any("/region_1/" in name for name in nodes)
    sources = {each.partition(":")[0] for node in nodes.values() for each in node.input}
    assert sources <= nodes.keys()


def test_what_was_not_compiled_has_its_text(tmp_path: Path) -> None:
    reports.too_large_to_compile().to_summary(tf.summary.create_file_writer(str(tmp_path)))
    (file,) = tmp_path.iterdir()
    assert b"could not be cut" in file.read_bytes()
