"""For the tests that a row refuses operands that do not fit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tf_memsafe.hlo import build
from tf_memsafe.hlo.node import Node
from tf_memsafe.hlo.types import TensorType


def assert_refused(make: Callable[..., Node], types: tuple[TensorType, ...]) -> None:
    """The row's `infer` raises TypeError for operands of these types."""
    with pytest.raises(TypeError):
        make(*build.region_parameters(types))
