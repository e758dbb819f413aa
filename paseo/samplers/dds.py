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
from paseo.samplers.common import begin, check_fields, first_state, report, share
from paseo.samplers.linear import linear_model, needs_linear
from paseo.samplers.state import predict, walk


@dataclass(frozen=True)
class DDS:
    steps: int = 80  # time points n; NFE = n − 1
    gamma: float = 1.0  # γ, trust in the measurement over trust in the prior
    cg_budget: int = 5  # M
    eta: float = 0.85  # share of fresh noise in the next state
    cg_tolerance: float = 1e-5  # relative residual at which a sample's CG stops early

    def __post_init__(self) -> None:
        check_fields(
            self,
            *share(self, "eta"),
            ("gamma", 0 <= self.gamma < math.inf, "it is finite and not negative; the limit is DDNM"),
            ("cg_budget", self.cg_budget >= 1, "M counts CG iterations and starts at 1"),
        )

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
            x = report(watch, k, self.steps - 1, s, x, z, "a smaller gamma")
        return x
