"""Factorisations, solves and Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tf_memsafe.hlo.check import require, require_count, require_same_dtype
from tf_memsafe.hlo.node import Attributes, Node
from tf_memsafe.hlo.op import Cut, Instruction, Op, Symbol, register
from tf_memsafe.hlo.types import TensorType, Type


def _require_square(matrix: TensorType) -> None:
    square = matrix.rank >= 2 and matrix.shape[-1] == matrix.shape[-2]
    require(square, f"{matrix} has to be a square matrix")


# --- cholesky -----------------------------------------------------------------------------------


def _read_cholesky(instruction: Instruction) -> Attributes:
    return {"lower": instruction.proto.cholesky_options.lower}


def _infer_cholesky(
    operands: Sequence[Node], _attributes: Attributes, _regions: object, _declared: object
) -> Type:
    require_count(operands, 1)
    _require_square(operands[0].tensor)
    return operands[0].type


def _flops_cholesky(node: Node) -> int:
    return node.tensor.size * node.shape[-1] // 3


def _slice_cholesky(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    return (cut,) if cut.axis < node.tensor.rank - 2 else None


# --- triangular_solve ---------------------------------------------------------------------------


def _read_triangular_solve(instruction: Instruction) -> Attributes:
    options = instruction.proto.triangular_solve_options
    return {
        "left_side": options.left_side,
        "lower": options.lower,
        "unit_diagonal": options.unit_diagonal,
        "transpose_a": Symbol("transpose", instruction.enum(options, "transpose_a")),
    }


def _infer_triangular_solve(
    operands: Sequence[Node], attributes: Attributes, _regions: object, _declared: object
) -> Type:
    require_count(operands, 2)
    require_same_dtype(operands)
    triangle, right = operands[0].tensor, operands[1].tensor
    _require_square(triangle)
    require(triangle.shape[:-2] == right.shape[:-2], "the batch axes have to be of one size")
    inner = right.shape[-2 if attributes["left_side"] else -1]
    require(triangle.shape[-1] == inner, f"{triangle} and {right} do not fit")
    return right


def _flops_triangular_solve(node: Node) -> int:
    return node.tensor.size * node.operands[0].shape[-1]


def _slice_triangular_solve(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    """Batches, and right-hand sides: the columns of X in A X = B, the rows of X in X A = B."""
    rank = node.tensor.rank
    if cut.axis < rank - 2:
        return cut, cut
    free = rank - 1 if node["left_side"] else rank - 2
    return (None, cut) if cut.axis == free else None


# --- fft ----------------------------------------------------------------------------------------


def _read_fft(instruction: Instruction) -> Attributes:
    proto = instruction.proto
    return {
        "fft_type": Symbol("fft_type", instruction.enum(proto, "fft_type")),
        "fft_length": tuple(proto.fft_length),
    }


def _infer_fft(
    operands: Sequence[Node], attributes: Attributes, _regions: object, _declared: object
) -> Type:
    require_count(operands, 1)
    operand, length = operands[0].tensor, attributes["fft_length"]
    kind = attributes["fft_type"].value
    halved = (*length[:-1], length[-1] // 2 + 1)
    batch = operand.shape[: operand.rank - len(length)]
    taken = halved if kind == "IRFFT" else length
    require(operand.shape == (*batch, *taken), f"{operand} has not the length {taken}")
    require((kind != "RFFT") == operand.dtype.startswith("complex"), f"{kind} of {operand}")
    if kind == "RFFT":
        return TensorType(f"complex<{operand.dtype}>", (*batch, *halved))
    if kind == "IRFFT":
        return TensorType(operand.dtype[len("complex<") : -1], (*batch, *length))
    return operand


def _flops_fft(node: Node) -> int:
    return 5 * node.tensor.size * max(1, prod(node["fft_length"]).bit_length())


def _slice_fft(node: Node, cut: Cut) -> tuple[Cut | None, ...] | None:
    return (cut,) if cut.axis < node.tensor.rank - len(node["fft_length"]) else None


register(
    Op(
        name="cholesky",
        opcodes=("cholesky",),
        read=_read_cholesky,
        infer=_infer_cholesky,
        flops=_flops_cholesky,
        slice=_slice_cholesky,
    ),
    Op(
        name="triangular_solve",
        opcodes=("triangular-solve",),
        read=_read_triangular_solve,
        infer=_infer_triangular_solve,
        flops=_flops_triangular_solve,
        slice=_slice_triangular_solve,
    ),
    Op(
        name="fft",
        opcodes=("fft",),
        read=_read_fft,
        infer=_infer_fft,
        flops=_flops_fft,
        slice=_slice_fft,
    ),
)
