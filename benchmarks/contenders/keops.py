"""KeOps on the CPU, through its LazyTensors for PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pykeops.torch import LazyTensor

Call = Callable[[], Any]


def tensors(data: dict[str, Any], *names: str) -> list[torch.Tensor]:
    return [torch.from_numpy(data[name]) for name in names]


def kernel(name: str, x: torch.Tensor, lengthscales: torch.Tensor) -> LazyTensor:
    scaled = x / lengthscales
    rows, columns = LazyTensor(scaled[:, None, :]), LazyTensor(scaled[None, :, :])
    squares = ((rows - columns) ** 2).sum(-1)
    if name == "squared exponential":
        return (-0.5 * squares).exp()
    r = (3 * squares).sqrt()
    return (1 + r) * (-r).exp()


def kernel_product(data: dict[str, Any], name: str) -> Call:
    x, lengthscales, v = tensors(data, "x", "lengthscales", "v")
    kernel(name, x[:10], lengthscales) @ v[:10]  # compiles the formula
    return lambda: kernel(name, x, lengthscales) @ v


def kernel_gradient(data: dict[str, Any], name: str) -> Call:
    *parameters, u, v = tensors(data, "x", "lengthscales", "variance", "u", "v")
    for parameter in parameters:
        parameter.requires_grad_()
    x, lengthscales, variance = parameters

    def value_and_gradients(count: int) -> Any:
        product = kernel(name, x[:count], lengthscales) @ v[:count]
        value = (u[:count] * variance * product).sum()
        return value.detach(), *torch.autograd.grad(value, parameters)

    value_and_gradients(10)  # compiles the formulas
    return lambda: value_and_gradients(len(x))
