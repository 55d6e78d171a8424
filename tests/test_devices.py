"""Devices are those that TensorFlow has."""

from __future__ import annotations

import tensorflow as tf

from tf_memsafe import devices


def test_programs_are_written_for_the_platforms_that_are_there() -> None:
    names = {"CPU": {"CPU"}, "GPU": {"CUDA", "ROCM"}, "TPU": {"TPU"}}
    kinds = {device.device_type for device in tf.config.list_logical_devices()}
    found = devices.platforms()
    assert "CPU" in found
    assert all(len(names[kind] & set(found)) == 1 for kind in kinds & names.keys())


def test_a_device_scope_names_the_device() -> None:
    with tf.device("CPU:0"):
        assert devices.current_type() == "CPU"
        assert devices.current().endswith("/device:CPU:0")


def test_the_device_is_known_while_a_function_is_traced() -> None:
    found = []

    @tf.function
    def trace() -> None:
        found.append(devices.current_type())

    trace()
    assert found == [devices.current_type()]
