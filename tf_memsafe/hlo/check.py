"""Checks that a row's `infer` makes on its operands."""

from __future__ import annotations

from collections.abc import Sequence

from tf_memsafe.hlo.node import Node


def require(condition: bool, complaint: str) -> None:
    """TypeError with the complaint, unless the condition holds."""
    if not condition:
        raise TypeError(complaint)


def require_count(operands: Sequence[Node], count: int) -> None:
    require(len(operands) == count, f"this op takes {count} operands, not {len(operands)}")


def require_same_shape(operands: Sequence[Node]) -> None:
    shapes = sorted({operand.shape for operand in operands})
    require(len(shapes) <= 1, f"the operands have to have one shape, not {shapes}")


def require_same_dtype(operands: Sequence[Node]) -> None:
    dtypes = sorted({operand.dtype for operand in operands})
    require(len(dtypes) <= 1, f"the operands have to have one dtype, not {dtypes}")


def require_scalars(operands: Sequence[Node]) -> None:
    for operand in operands:
        require(operand.shape == (), f"{operand.type} has to be a scalar")


def require_axis(axis: int, rank: int) -> None:
    require(0 <= axis < rank, f"there is no axis {axis} in a tensor of rank {rank}")
