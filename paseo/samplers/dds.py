"""DDS: decomposed diffusion sampling (Chung et al., 2024).

    z = argmin γ/2 ‖y − A·‖² + ½ ‖· − x̂₀‖²,   by M conjugate-gradient iterations on (I + γ AᵀA) from x̂₀
    x_s = α_s z + σ_s (η ξ + √(1−η²) x̂₁)

PASEO's step with the denoised estimate as anchor, no perturbation, γ = η_z²/r², solved in the other space
(docs/methods.md). The denoiser is not differentiated. Source: HJ-harry/DDS, CT and MRI; here on latents
(`paseo.samplers.linear`).

Departures: CG stops at a relative residual (the released code at ‖r‖ < 1e-5) and is written for the
correction, which gives the same iterates; the time grid is the prior's. `gamma=inf` (their noiseless variant)
is DDNM.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from paseo.base import Prior, Problem, Watch, ignore
from paseo.noise import Noise
from paseo.samplers.common import begin, end_step, first_state
from paseo.samplers.linear import linear_model, needs_linear
from paseo.samplers.state import predict, walk
from paseo.setting import check_settings, setting


@dataclass(frozen=True)
class DDS:
    steps: int = setting(80, "n", "time points; NFE = n − 1", "[3, 10000]")
    gamma: float = setting(1.0, "γ", "trust in y over trust in the prior", "[0, 1e9]", tune="0.1:1e3:log")
    cg_budget: int = setting(5, "M", "CG iterations per step", "[1, 10000]", tune="1:8:log")
    eta: float = setting(0.85, "η", "part of the next noise that is fresh", "[0, 1]", tune="0.0,0.85,1.0")
    cg_tolerance: float = setting(1e-5, "", "relative residual at which a sample's CG stops early", "[0, 1]")

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def nfe(self) -> int:
        return self.steps - 1

    def unsupported(self, problem: Problem) -> str | None:
        return needs_linear(problem)

    @torch.no_grad()
    def __call__(self, prior: Prior, problem: Problem, noise: Noise, watch: Watch = ignore) -> Tensor:
        begin(self, problem, noise)
        model = linear_model(problem)
        points = walk(prior.schedule, self.steps)
        x = first_state(points[0], problem, noise)
        for k, (t, s) in enumerate(pairwise(points)):
            x0, x1 = predict(prior, x, t)
            z = model.correct(x0, self.gamma, 1.0, self.cg_budget, self.cg_tolerance)
            x = s.alpha * z + s.sigma * (self.eta * noise.like(x) + math.sqrt(1 - self.eta**2) * x1)
            x = end_step(watch, k, self.steps - 1, s, x, z, "a smaller gamma")
        return x
