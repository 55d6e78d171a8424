"""Batch normalisation, whole: XLA takes it apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tf_memsafe.hlo.check import require, require_count
from tf_memsafe.hlo.node import Attributes, Node
from tf_memsafe.hlo.op import Instruction, Op, register
from tf_memsafe.hlo.types import TensorType, TupleType, Type

FLOPS_PER_ELEMENT = 8


class F32(NamedTuple):
    """A float attribute of 32 bits."""

    value: float

    def __str__(self) -> str:
        return f"{self.value:.9e} : f32"


def _read(instruction: Instruction) -> Attributes:
    proto = instruction.proto
    return {"epsilon": F32(proto.epsilon), "feature_index": proto.feature_index}


def _features(operands: Sequence[Node], attributes: Attributes) -> TensorType:
    """The type of what there is once a feature; all operands but images have it."""
    image = operands[0].tensor
    return operands[1].tensor.with_shape((image.shape[attributes["feature_index"]],))


def _infer(
    operands: Sequence[Node], attributes: Attributes, _regions: object, _declared: object
) -> Type:
    require_count(operands, 5)
    _require_features(operands[1:], _features(operands, attributes))
    return operands[0].type


def _infer_training(
    operands: Sequence[Node], attributes: Attributes, _regions: object, _declared: object
) -> Type:
    require_count(operands, 3)
    features = _features(operands, attributes)
    _require_features(operands[1:], features)
    return TupleType((operands[0].tensor, features, features))


def _infer_grad(
    operands: Sequence[Node], attributes: Attributes, _regions: object, _declared: object
) -> Type:
    require_count(operands, 5)
    features = _features(operands, attributes)
    _require_features(operands[1:4], features)
    require(operands[4].type == operands[0].type, "the gradient has to have the image's type")
    return TupleType((operands[0].tensor, features, features))


def _require_features(operands: Sequence[Node], features: TensorType) -> None:
    for operand in operands:
        require(operand.type == features, f"{operand.type} has to be {features}")


def _flops(node: Node) -> int:
    return FLOPS_PER_ELEMENT * node.operands[0].tensor.size


register(
    Op(
        name="batch_norm_inference",
        opcodes=("batch-norm-inference",),
        read=_read,
        infer=_infer,
        flops=_flops,
    ),
    Op(
        name="batch_norm_training",
        opcodes=("batch-norm-training",),
        read=_read,
        infer=_infer_training,
        flops=_flops,
    ),
    Op(
        name="batch_norm_grad",
        opcodes=("batch-norm-grad",),
        read=_read,
        infer=_infer_grad,
        flops=_flops,
    ),
)
