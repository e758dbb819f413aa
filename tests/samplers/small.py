"""A mixture behind a small nonlinear operator, and a convolutional one with a dead corner: what PASEO is
tested on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from paseo.base import Problem
from paseo.linalg import linearize
from paseo.priors import GaussianPrior, MixturePrior
from paseo.schedule import Flow

F64 = torch.float64
D, Q = 6, 4


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


class Smooth(nn.Module):
    """A small nonlinear operator R⁶ → R⁴ in float64."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(D, 8), nn.Tanh(), nn.Linear(8, Q)).to(F64).requires_grad_(False)

    def forward(self, z: Tensor) -> Tensor:
        return self.net(z)


def prior(schedule: Any = None) -> MixturePrior:
    return MixturePrior.isotropic([normal(D, seed=i) for i in range(3)], std=0.4, schedule=schedule or Flow())


def problem(batch: int = 3, operator: Any = None, observed: Tensor | None = None) -> Problem:
    y = normal(batch, Q, seed=9)
    return Problem(
        y=y, y_z=y, sigma_y=0.01, operator=operator or Smooth(), observed=observed, latent_shape=(batch, D)
    )


def conv_problem(batch: int = 2, observed: Tensor | None = None) -> tuple[GaussianPrior, Problem]:
    """A convolutional operator on 3×6×6 latents with a dead corner."""
    torch.manual_seed(1)
    net = (
        nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.SiLU(), nn.Conv2d(5, 3, 3, padding=1))
        .to(F64)
        .requires_grad_(False)
    )
    alive = torch.ones(6, 6, dtype=F64)
    alive[:3, :3] = 0.0
    y = normal(batch, 3, 6, 6, seed=2)
    return GaussianPrior.natural((3, 6, 6)), Problem(
        y=y, y_z=y, sigma_y=0.01, operator=lambda z: alive * net(z), observed=observed
    )


class Counting:
    """An operator that counts its values, JVPs and VJPs."""

    def __init__(self, H: Callable[[Tensor], Tensor]) -> None:
        self.H, self.values, self.jvps, self.vjps = H, 0, 0, 0

    def __call__(self, z: Tensor) -> Tensor:
        raise AssertionError("the sampler must go through linearize")

    def linearize(self, z: Tensor) -> tuple[Tensor, Any, Any]:
        h, J, JT = linearize(self.H, z)
        self.values += 1

        def jvp(v: Tensor) -> Tensor:
            self.jvps += 1
            return J(v)

        def vjp(u: Tensor) -> Tensor:
            self.vjps += 1
            return JT(u)

        return h, jvp, vjp
