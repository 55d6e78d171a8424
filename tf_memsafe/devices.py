"""The devices that functions run on, and that programs are written for."""

from __future__ import annotations

import tensorflow as tf


def current_type() -> str:
    """The kind of device that what is compiled now will run on, as TensorFlow names it."""
    return str(tf.DeviceSpec.from_string(current()).device_type)


def current() -> str:
    """The name of the device that functions run on where they are called now."""
    with tf.init_scope():
        return str(tf.constant(0.0).device)


def platforms() -> list[str]:
    """The platforms that a program is written for: the CPU and what else this process can see."""
    kinds = {device.device_type for device in tf.config.list_logical_devices()}
    names = {"CPU": "CPU", "GPU": "CUDA", "TPU": "TPU"}
    if "GPU" in kinds and tf.test.is_built_with_rocm():
        names["GPU"] = "ROCM"
    return sorted(names[kind] for kind in kinds & names.keys())
