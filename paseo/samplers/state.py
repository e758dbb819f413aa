"""The diffusion state x = α z + σ ε and its three scalings, as arithmetic on one `Point`.

A prior returns x̂₀ = E[z | x]; the noise estimate is x̂₁ = (x − α x̂₀)/σ. Both are the same in every scaling
of the state:

    flow  x/(α+σ), time τ = σ/(α+σ)        VP  x/√(α²+σ²)        VE  x/α, level ς = σ/α

A method written for flows therefore runs on a VP prior by reading τ from the level and returning
x' = α' ẑ + σ' ε̂', which is (α'+σ') times its flow state; one written for VE reads ς. No state is ever
converted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint as recompute

from paseo.base import Prior
from paseo.schedule import Point, Schedule, grid, warped


def predict(prior: Prior, x: Tensor, p: Point, checkpoint: bool = False) -> tuple[Tensor, Tensor]:
    """(x̂₀, x̂₁) at p; one NFE (two with `checkpoint`, where the backward pass calls the denoiser again)."""
    x0 = checkpointed(lambda v: prior.x0(v, p.t), x, checkpoint)
    return x0, (x - p.alpha * x0) / p.sigma


def checkpointed(f: Callable[[Tensor], Tensor], x: Tensor, checkpoint: bool) -> Tensor:
    """f(x); with `checkpoint` its graph is rebuilt in the backward pass instead of kept."""
    if not (checkpoint and torch.is_grad_enabled()):
        return f(x)
    return recompute(f, x, use_reentrant=False, preserve_rng_state=False)


def bridge(x0: Tensor, x1: Tensor, s: Point, eta: float | None = None) -> Tensor:
    """Mean of the DDIM bridge that arrives at s with std η: α_s x̂₀ + √(σ_s² − η²) x̂₁."""
    eta = s.eta if eta is None else eta
    return s.alpha * x0 + math.sqrt(max(s.sigma**2 - eta**2, 0.0)) * x1


def flow_time(p: Point) -> float:
    """τ = σ/(α+σ), the time of the flow view."""
    return p.sigma / (p.alpha + p.sigma)


def walk(schedule: Schedule, steps: int, *, eta: float = 1.0, shift: float | None = None) -> list[Point]:
    """`steps` points from noise to clean, whose η is `eta` times the DDPM bridge's; `shift` replaces the
    native grid.
    """
    return [replace(p, eta=eta * p.eta) for p in grid(warped(schedule, shift), steps, "ddpm")]
