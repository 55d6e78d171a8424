"""A small node of every op, for the proofs of the axis rules."""

from __future__ import annotations

import numpy as np

from tests.hlo.ops.makers import (
    Instance,
    arg_max,
    binary,
    booleans,
    comparator,
    complexes,
    convolution,
    dilations,
    dot,
    double,
    emit,
    fft,
    floats,
    gather,
    integers,
    less,
    positive_definite,
    scatter,
    scatter_into,
    solve,
    sum_over,
    window,
    with_region,
)
from tests.hlo.ops.part_instances import CUMULATIVE, PARTS
from tf_memsafe.hlo import build
from tf_memsafe.hlo.op import I32
from tf_memsafe.hlo.types import TensorType

FAMILIES: dict[str, list[Instance]] = {
    "elementwise": [
        Instance("tanh", (floats(4, 6),), emit("tanh"), (0, 1)),
        Instance("add", (floats(4, 6), floats(4, 6)), emit("add"), (0, 1)),
        Instance("compare", (floats(4, 6), floats(4, 6)), less, (0, 1)),
        Instance("convert", (floats(4, 6),), emit("convert", type=integers(4, 6)), (0, 1)),
        Instance("complex", (floats(4, 6), floats(4, 6)), emit("complex"), (0, 1)),
        Instance("imag", (complexes(4, 6),), emit("imag"), (0, 1)),
        Instance(
            "reduce_precision",
            (floats(4, 6),),
            emit("reduce_precision", exponent_bits=I32(5), mantissa_bits=I32(3)),
            (0, 1),
        ),
        Instance("select", (booleans(4, 6), floats(4, 6), floats(4, 6)), emit("select"), (0, 1)),
        Instance("select by a scalar", (booleans(), floats(4), floats(4)), emit("select"), (0,)),
        Instance("clamp to scalars", (floats(), floats(4, 6), floats()), emit("clamp"), (0, 1)),
        Instance("map", (floats(4, 6),), with_region("map", double(), dimensions=(0, 1)), (0, 1)),
        Instance(
            "bitcast_convert", (floats(4, 6),), emit("bitcast_convert", type=integers(4, 6)), (0, 1)
        ),
        Instance(
            "bitcast to parts",
            (floats(4),),
            emit("bitcast_convert", type=TensorType("ui8", (4, 4))),
            (0,),
        ),
        Instance(
            "bitcast from parts",
            (TensorType("ui16", (4, 2)),),
            emit("bitcast_convert", type=integers(4)),
            (0,),
        ),
    ],
    "views": [
        Instance("constant", (), lambda: build.constant(3, floats(4, 6)), (0, 1)),
        Instance("iota", (), emit("iota", type=integers(4, 6), iota_dimension=1), (0, 1)),
        Instance("float iota", (), emit("iota", type=floats(4, 6), iota_dimension=0), (0, 1)),
        Instance("broadcast", (floats(6),), lambda x: build.broadcast(x, (4, 6), (1,)), (0, 1)),
        Instance(
            "broadcast of one",
            (floats(4, 1),),
            lambda x: build.broadcast(x, (4, 6), (0, 1)),
            (0, 1),
        ),
        Instance("reshape apart", (floats(12),), lambda x: build.reshape(x, (4, 3)), (0,)),
        Instance("reshape together", (floats(4, 3),), lambda x: build.reshape(x, (12,)), ()),
        Instance(
            "reshape with a one", (floats(4, 6),), lambda x: build.reshape(x, (4, 1, 6)), (0, 2)
        ),
        Instance(
            "transpose", (floats(4, 6, 2),), emit("transpose", permutation=(2, 0, 1)), (0, 1, 2)
        ),
        Instance("reverse", (floats(4, 6),), emit("reverse", dimensions=(1,)), (0,)),
    ],
    "parts": PARTS,
    "cumulative": CUMULATIVE,
    "sums": [
        Instance(
            "dot",
            (floats(4, 6), floats(6, 2)),
            emit("dot_general", **dot((), (), (1,), (0,))),
            (0, 1),
            1,
        ),
        Instance(
            "batched dot",
            (floats(4, 6, 2), floats(4, 2, 6, 8)),
            emit("dot_general", **dot((0,), (0,), (2, 1), (1, 2))),
            (0, 1),
            2,
        ),
        Instance(
            "half dot",
            (TensorType("bf16", (4, 6)), TensorType("bf16", (6, 4))),
            emit("dot_general", **dot((), (), (1,), (0,))),
            (0, 1),
            1,
        ),
        Instance(
            "reduce",
            (floats(4, 6, 2),),
            sum_over(1),
            (0, 1),
            1,
        ),
        Instance(
            "reduce two axes",
            (floats(4, 6, 2), floats()),
            with_region("reduce", binary("maximum"), dimensions=(0, 2)),
            (0,),
            2,
        ),
        Instance(
            "argmax",
            (floats(4, 6), integers(4, 6), floats(), integers()),
            with_region("reduce", arg_max(), dimensions=(1,)),
            (0,),
            1,
        ),
        Instance(
            "convolution",
            (floats(4, 5, 6, 2), floats(3, 2, 2, 4)),
            emit("convolution", **convolution()),
            (0, 3),
            1,
        ),
        Instance(
            "depthwise convolution",
            (floats(4, 5, 6, 2), floats(3, 2, 1, 4)),
            emit("convolution", **convolution(features=2)),
            (0,),
        ),
        Instance(
            "convolution of groups of a batch",
            (floats(4, 5, 6, 2), floats(3, 2, 2, 4)),
            emit("convolution", **convolution(batches=2)),
            (),
        ),
        Instance(
            "reduce_window",
            (floats(4, 6, 2), floats()),
            with_region(
                "reduce_window", binary("add"), **window((1, 2, 2), (1, 2, 1)), **dilations(3)
            ),
            (0, 1),
        ),
        Instance(
            "select_and_scatter",
            (floats(4, 6), floats(4, 3), floats()),
            with_region(
                "select_and_scatter",
                comparator("GE", "f32"),
                binary("add"),
                **window((1, 2), (1, 2)),
            ),
            (0,),
        ),
    ],
    "indexing": [
        Instance(
            "dynamic_slice",
            (floats(4, 6), integers(), integers()),
            emit("dynamic_slice", slice_sizes=(4, 3)),
            (0,),
        ),
        Instance(
            "dynamic_update_slice",
            (floats(4, 6), floats(4, 2), integers(), integers()),
            emit("dynamic_update_slice"),
            (0,),
        ),
        Instance(
            "gather rows",
            (floats(6, 4), integers(4, 2)),
            emit("gather", **gather((1, 4), (2,), (0,), (), (), (0,), 2)),
            (0, 1, 2),
        ),
        Instance(
            "gather windows",
            (floats(6, 4), integers(2, 4)),
            emit("gather", **gather((2, 4), (0, 2), (), (), (), (1, 0), 0)),
            (1, 2),
        ),
        Instance(
            "gather in a batch",
            (floats(4, 6, 2), integers(4, 8, 1)),
            emit("gather", **gather((1, 1, 2), (1,), (1,), (0,), (0,), (1,), 2)),
            (0, 1, 2),
        ),
        Instance(
            "scatter rows",
            (floats(6, 4), integers(8), floats(8, 4)),
            with_region("scatter", binary("add"), **scatter((1,), (0,), (), (), (0,), 1)),
            (0, 1),
        ),
        Instance(
            "scatter the largest",
            (floats(6, 4), integers(8), floats(8, 4)),
            with_region("scatter", binary("maximum"), **scatter((1,), (0,), (), (), (0,), 1)),
            (0, 1),
            1,
        ),
        Instance(
            "scatter one row",
            (floats(6, 4), integers(1), floats(1, 4)),
            with_region("scatter", binary("add"), **scatter((1,), (0,), (), (), (0,), 1)),
            (0, 1),
        ),
        Instance(
            "scatter one element",
            (floats(6, 4), integers(2), floats()),
            with_region("scatter", binary("add"), **scatter((), (0, 1), (), (), (1, 0), 0)),
            (0, 1),
        ),
        Instance(
            "scatter elements",
            (integers(8, 2), floats(8)),
            scatter_into(0, (), (0, 1), (), (), (1, 0), 1),
            (0, 1),
            1,
        ),
        Instance(
            "scatter into ones",
            (TensorType("i8", (8, 2)), floats(8)),
            scatter_into(1, (), (0, 1), (), (), (1, 0), 1),
            (0, 1),
        ),
        Instance(
            "scatter windows",
            (floats(6, 4), integers(8, 1), floats(8, 2, 4)),
            with_region("scatter", binary("add"), **scatter((1, 2), (), (), (), (0,), 1)),
            (1,),
        ),
        Instance(
            "scatter in a batch",
            (floats(4, 6, 2), integers(4, 8, 1), floats(4, 8, 2)),
            with_region("scatter", binary("minimum"), **scatter((2,), (1,), (0,), (0,), (1,), 2)),
            (0, 1, 2),
            1,
        ),
    ],
    "ordering": [
        Instance(
            "sort",
            (floats(4, 6, 2), integers(4, 6, 2)),
            with_region("sort", comparator("LT", "f32", "i32"), dimension=1, is_stable=True),
            (0, 2),
        ),
        Instance("top_k", (floats(4, 6),), emit("top_k", k=2), (0,), 1),
        Instance("top_k of equals", (integers(4, 30),), emit("top_k", k=5), (0,), 1),
    ],
    "linalg": [
        Instance(
            "cholesky",
            (floats(4, 3, 3),),
            emit("cholesky", lower=True),
            (0,),
            values=lambda _: np.stack([(n + 1) * positive_definite(3) for n in range(4)]),
        ),
        Instance(
            "triangular_solve",
            (floats(4, 3, 3), floats(4, 3, 6)),
            emit("triangular_solve", **solve(left_side=True)),
            (0, 2),
            values=lambda _: np.stack([(n + 1) * positive_definite(3) for n in range(4)]),
        ),
        Instance(
            "triangular_solve of columns",
            (floats(3, 3), floats(3, 6)),
            emit("triangular_solve", **solve(left_side=True)),
            (1,),
            values=lambda _: positive_definite(3),
        ),
        Instance(
            "triangular_solve of rows",
            (floats(3, 3), floats(6, 3)),
            emit("triangular_solve", **solve(left_side=False)),
            (0,),
            values=lambda _: positive_definite(3),
        ),
        Instance("fft", (complexes(4, 6, 8),), emit("fft", **fft("FFT", 8)), (0, 1)),
        Instance("rfft", (floats(4, 6, 8),), emit("fft", **fft("RFFT", 6, 8)), (0,)),
        Instance("irfft", (complexes(4, 5),), emit("fft", **fft("IRFFT", 8)), (0,)),
    ],
}
"""By family; the nodes of one are compiled as one program."""
