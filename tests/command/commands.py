"""Runs the command line in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.processes import ROOT

SCRIPT = """
import sys
import tensorflow as tf

def main():
    @tf.function(jit_compile=True)
    def kernel(x, v):
        distances = tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)
        return tf.exp(-distances) @ v

    print(kernel(tf.ones([1000, 3]), tf.ones([1000, 2])).shape, sys.argv[1:], __name__, __file__)

if __name__ == "__main__":
    main()
    if "fail" in sys.argv:
        raise RuntimeError("as asked")
    if sys.argv[1:]:
        sys.exit(int(sys.argv[1]))
"""


def call(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python -m tf_memsafe` with these arguments, in this folder."""
    return subprocess.run(
        [sys.executable, "-m", "tf_memsafe", *arguments],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": ROOT, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
