"""Random numbers: from a state that is a value, or from XLA's own generator (an effect)."""

from __future__ import annotations

from collections.abc import Sequence

from tf_memsafe.hlo import build
from tf_memsafe.hlo.check import require, require_count, require_same_dtype, require_scalars
from tf_memsafe.hlo.node import Attributes, Node
from tf_memsafe.hlo.op import Instruction, Op, Symbol, declared_type, register
from tf_memsafe.hlo.types import TensorType, TupleType, Type

FLOPS_PER_NUMBER = 50
"""What a round of Philox or Threefry costs, roughly."""

ALGORITHMS = {
    "RNG_DEFAULT": "DEFAULT",
    "RNG_THREE_FRY": "THREE_FRY",
    "RNG_PHILOX": "PHILOX",
}
DISTRIBUTIONS = {"RNG_UNIFORM": "UNIFORM", "RNG_NORMAL": "NORMAL"}


def _read_bit_generator(instruction: Instruction) -> Attributes:
    algorithm = ALGORITHMS[instruction.enum(instruction.proto, "rng_algorithm")]
    return {"rng_algorithm": Symbol("rng_algorithm", algorithm)}


def _infer_bit_generator(
    operands: Sequence[Node], attributes: Attributes, regions: object, declared: Type | None
) -> Type:
    require_count(operands, 1)
    result = declared_type(operands, attributes, regions, declared)
    is_pair = isinstance(result, TupleType) and len(result.elements) == 2
    require(is_pair, "the results are the next state and the bits")
    assert isinstance(result, TupleType)
    require(result.elements[0] == operands[0].type, "the next state is of the state's type")
    return result


def _construct_rng(instruction: Instruction) -> Node:
    """StableHLO's rng takes the shape as an operand."""
    type_ = instruction.type
    assert isinstance(type_, TensorType)
    shape = build.constant(type_.shape, TensorType("i64", (type_.rank,)))
    name = DISTRIBUTIONS[instruction.enum(instruction.proto, "distribution")]
    return build.emit(
        "rng",
        (*instruction.operands, shape),
        {"rng_distribution": Symbol("rng_distribution", name)},
        type=type_,
        source=instruction.source,
    )


def _infer_rng(
    operands: Sequence[Node], attributes: Attributes, regions: object, declared: Type | None
) -> Type:
    require_count(operands, 3)
    *bounds, shape = operands
    require_scalars(bounds)
    require_same_dtype(bounds)
    result = declared_type(operands, attributes, regions, declared)
    fits = isinstance(result, TensorType) and shape.shape == (result.rank,)
    require(fits, f"{shape.type} is not the shape of {result}")
    return result


def _flops(node: Node) -> int:
    return FLOPS_PER_NUMBER * node.results[-1].size


register(
    Op(
        name="rng_bit_generator",
        opcodes=("rng-bit-generator",),
        read=_read_bit_generator,
        infer=_infer_bit_generator,
        flops=_flops,
    ),
    Op(
        name="rng",
        opcodes=("rng",),
        construct=_construct_rng,
        infer=_infer_rng,
        flops=_flops,
        effects=True,
    ),
)
