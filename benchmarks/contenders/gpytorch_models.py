"""GPyTorch: kernels in checkpointed partitions, SGPR, and an exact GP with KeOps.

Its own checkpointing of kernels was removed after version 1.10, so that its user partitions a
kernel by hand now, with PyTorch's checkpointing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpytorch
import torch
from torch.utils.checkpoint import checkpoint

PARTITION = 64_000_000
"""Bytes of a partition of the kernel matrix."""

JITTER = 1e-6
"""gpflow.config.default_jitter()."""

Call = Callable[[], Any]


def tensors(data: dict[str, Any], *names: str) -> list[torch.Tensor]:
    return [torch.from_numpy(data[name]) for name in names]


def kernel(name: str, dimensions: int) -> gpytorch.kernels.Kernel:
    if name == "squared exponential":
        return gpytorch.kernels.RBFKernel(ard_num_dims=dimensions)
    return gpytorch.kernels.MaternKernel(nu=1.5, ard_num_dims=dimensions)


def kernel_product(data: dict[str, Any], name: str) -> Call:
    x, lengthscales, v = tensors(data, "x", "lengthscales", "v")
    covariance = kernel(name, x.shape[1]).to(x.dtype)
    covariance.lengthscale = lengthscales
    rows = max(1, PARTITION // (x.element_size() * len(x)))

    def partition(part: torch.Tensor) -> torch.Tensor:
        return covariance(part, x).to_dense() @ v

    def product() -> torch.Tensor:
        parts = x.split(rows)
        with torch.no_grad():
            return torch.cat([checkpoint(partition, p, use_reentrant=False) for p in parts])

    return product


# --- SGPR ---------------------------------------------------------------------------------------


class InducingPointKernel(gpytorch.kernels.InducingPointKernel):
    """With GPflow's jitter on the diagonal: its own adds none, and the bound differs for that."""

    @property
    def _inducing_mat(self) -> torch.Tensor:
        matrix = super()._inducing_mat
        return matrix + JITTER * torch.eye(len(matrix), dtype=matrix.dtype)


class Sparse(gpytorch.models.ExactGP):
    """Titsias' sparse GP, as GPyTorch's documentation has it."""

    def __init__(self, x: Any, y: Any, inducing: Any, likelihood: Any) -> None:
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=x.shape[1]))
        base.outputscale, base.base_kernel.lengthscale = 1.0, 1.0
        self.covar_module = InducingPointKernel(base, inducing, likelihood)

    def forward(self, x: Any) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def sgpr(data: dict[str, Any]) -> Call:
    x, y, inducing = tensors(data, "x", "y", "inducing")
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Sparse(x, y[:, 0], inducing, likelihood).double()
    likelihood.noise = 1.0
    model.train()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    covariance = model.covar_module
    parameters = [
        covariance.inducing_points,
        covariance.base_kernel.base_kernel.raw_lengthscale,
        covariance.base_kernel.raw_outputscale,
        likelihood.noise_covar.raw_noise,
    ]

    def loss_and_gradients() -> Any:
        # GPyTorch's objective is per point.
        loss = -len(x) * objective(model(x), y[:, 0])
        return loss.detach(), *torch.autograd.grad(loss, parameters)

    return loss_and_gradients


# --- exact GP -----------------------------------------------------------------------------------


def exact_gp(data: dict[str, Any], tolerance: float, steps: int) -> Call:
    """By GPyTorch's preconditioned conjugate gradients on KeOps's kernel, from n = 800 on."""
    x, lengthscales, noise, y = tensors(data, "x", "lengthscales", "noise", "y")
    covariance = gpytorch.kernels.keops.RBFKernel(ard_num_dims=x.shape[1]).to(x.dtype)
    covariance.lengthscale = lengthscales

    def weights() -> torch.Tensor:
        settings = gpytorch.settings
        with (
            torch.no_grad(),
            settings.cg_tolerance(tolerance),
            settings.max_cg_iterations(steps),
        ):
            return covariance(x).add_diagonal(noise).solve(y)

    return weights
