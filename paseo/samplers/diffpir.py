"""DiffPIR: plug-and-play restoration by half-quadratic splitting (Zhu et al., 2023).

    ρ = λ σ_n² / ς²,   ς = σ/α
    z = argmin ‖y − A·‖² + ρ ‖· − x̂₀‖²                       in closed form where there is one
    ε' = (x − α z)/σ,   x_s = α_s z + σ_s (√(1−ζ) ε' + √ζ ξ)   the noise is recomputed from z

PASEO's step with the denoised estimate as anchor and r²/η_z² = ρ (docs/methods.md). The denoiser is not
differentiated.
Source: yuanzhi-zhu/DiffPIR, pixels; here on latents (`paseo.samplers.linear`).

Departures:
- operators without a closed form are solved by conjugate gradients to `cg_tolerance`; the released FFT
  assumes circular blur, and its back-projection for bicubic ×s is a gradient iteration with a tuned step;
- the run starts from noise on the prior's grid (released: noised up-sampled y, quadratic grid);
- ρ is at least 1e-6, since flow grids start at ς = ∞;
- like the released code, the last step has no data term unless `last_data_step` is set.
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
from paseo.samplers.linear import LinearModel, linear_model, needs_linear
from paseo.samplers.state import predict, walk
from paseo.schedule import Point
from paseo.setting import check_settings, setting

RHO_FLOOR = 1e-6
NOISE_FLOOR = 0.001


@dataclass(frozen=True)
class DiffPIR:
    steps: int = setting(80, "n", "time points; NFE = n − 1", "[3, 10000]")
    lam: float = setting(7.0, "λ", "weight of the prior", "(0, 1e9]", tune="0.1:1000.0:log")
    # released: blur 0.1, ×s 0.25, inpainting 1
    zeta: float = setting(0.25, "ζ", "part of the noise that is fresh", "[0, 1]", tune="0.1,0.25,0.5,1.0")
    measurement_noise: float | None = setting(
        None, "σ_n", "in the units of y; None reads 2σ_y from the problem", "[0, 1000]"
    )
    last_data_step: bool = setting(False, "", "fit after the last call, too", tune="false,true")
    cg_budget: int = setting(50, "", "CG iterations, for operators without a closed form", "[1, 10000]")
    cg_tolerance: float = setting(1e-5, "", "relative residual at which a sample's CG stops early", "[0, 1]")

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def nfe(self) -> int:
        return self.steps - 1

    def unsupported(self, problem: Problem) -> str | None:
        return needs_linear(problem)

    def rho(self, t: Point, problem: Problem) -> float:
        std = problem.sigma_y if self.measurement_noise is None else self.measurement_noise
        return max(self.lam * max(std, NOISE_FLOOR) ** 2 / t.level**2, RHO_FLOOR)

    def fit(self, model: LinearModel, z: Tensor, rho: float) -> Tensor:
        closed = model.closed_form(z, rho)
        return model.correct(z, 1.0, rho, self.cg_budget, self.cg_tolerance) if closed is None else closed

    @torch.no_grad()
    def __call__(self, prior: Prior, problem: Problem, noise: Noise, watch: Watch = ignore) -> Tensor:
        begin(self, problem, noise)
        model = linear_model(problem)
        points = walk(prior.schedule, self.steps)
        x = first_state(points[0], problem, noise)
        for k, (t, s) in enumerate(pairwise(points)):
            x0, _ = predict(prior, x, t)
            skipped = k == self.steps - 2 and not self.last_data_step
            z = x0 if skipped else self.fit(model, x0, self.rho(t, problem))
            eps = (x - t.alpha * z) / t.sigma
            x = s.alpha * z + s.sigma * (
                math.sqrt(1 - self.zeta) * eps + math.sqrt(self.zeta) * noise.like(x)
            )
            x = end_step(watch, k, self.steps - 1, s, x, z, "a larger lam")
        return x
