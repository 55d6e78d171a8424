"""Programs that came out wrong once, each with what it was."""

from __future__ import annotations

from typing import NamedTuple

from tests.generated.program import Argument, Instruction, RandomProgram


class PastFailure(NamedTuple):
    """A program, the limit under which it failed, and what it was.

    share: where the limit lies between the least that works and what the program takes.
    """

    what: str
    share: float
    program: RandomProgram


PAST_FAILURES = (
    PastFailure(
        # As a matrix product the distance of a row to itself is the rounding of its squared norm,
        # here 1e-4. The rule's docstring says so, and the comparison has to allow for it.
        "f32 distances of long rows to themselves",
        0.0,
        RandomProgram(
            (Argument((12, 5), "float32"), Argument((101, 5), "float32")),
            (
                Instruction("distances", 0, 1, 5, "float32"),
                Instruction("distances", 2, 2, 5, "float32"),
                Instruction("decay", 3, 3, 0, "float32"),
                Instruction("map rows", 4, 4, 1, "float32"),
            ),
        ),
    ),
    PastFailure(
        # A loop that is told to make no trips has no gradient in TensorFlow; programs make one.
        "gradient of a loop of one trip",
        0.5,
        RandomProgram(
            (Argument((60, 5), "float32"),),
            (
                Instruction("affine", 0, 0, 0, "float32"),
                Instruction("loop", 1, 1, 0, "float32"),
                Instruction("map rows", 2, 2, 0, "float32"),
                Instruction("attention", 3, 3, 0, "float32"),
            ),
            differentiated=True,
        ),
    ),
    PastFailure(
        # To reflect nothing is to join with what has no elements, of which no entry can be sliced.
        "a loop over what is joined with nothing",
        0.0,
        RandomProgram(
            (Argument((4, 5, 6), "float32"),),
            (
                Instruction("reflect", 0, 0, 1, "float32"),
                Instruction("map rows", 1, 1, 1, "float32"),
            ),
        ),
    ),
)
"""Few: the last alone is a fault of how a program was cut; others have a test in tests/split."""
