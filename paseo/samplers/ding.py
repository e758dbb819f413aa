"""DING: exact Gaussian conditioning on a latent mask, without any gradient (Moufad et al., 2026).

    m = α_s x̂₀ + √(σ_s² − η²) x̂₁,   p = m + η w',   ε̂ = x̂₁(p, s)
    γ = η² / (η² + α_s² σ²)
    seen     x = (1 − γ) m + γ (α_s y + σ_s ε̂) + α_s σ √γ ξ
    missing  x = m + η ξ

A draw from N(m, η² I) times the likelihood of y = M z + σ n. PASEO with a mask, the fresh anchor and r = σ
has the same law.
Source: YazidJanati/ding. `delayed=True` is its one-call variant (ε̂ from the state, not from the proxy).

Departures:
- the observation is M ∘ E(y), the masked encoding of the measurement. The released code masks E(x), the
  encoding of the clean image, whose cells near the hole carry what is hidden; that is not offered;
- `erode=True` drops the one-cell rim of the seen region, whose encodings are contaminated by the hole (the
  fairer construction that the PASEO paper names);
- coefficients are Python floats throughout.
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
from paseo.samplers.state import bridge, predict
from paseo.samplers.weight import erode
from paseo.schedule import EtaRule, grid
from paseo.setting import check_settings, setting


@dataclass(frozen=True)
class DING:
    steps: int = setting(41, "n", "time points; NFE = 2n − 3 (n − 1 if delayed)", "[3, 10000]")
    observation_noise: float = setting(0.01, "σ", "std of the observation", "[0, 1000]", tune="0.001:1.0:log")
    eta: EtaRule = setting("square", "η_k", "the width of the bridge", tune="ddpm,square,sqrt")
    delayed: bool = setting(False, "", "reuse the last noise estimate: one call per step")
    erode: bool = setting(False, "", "drop the one-cell rim of what is observed", tune="false,true")

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def nfe(self) -> int:
        return self.steps - 1 if self.delayed else 2 * self.steps - 3

    def unsupported(self, problem: Problem) -> str | None:
        if problem.observed is None:
            return "it needs a mask of observed latent cells, and only inpainting has one. Try PASEO."
        return None

    @torch.no_grad()
    def __call__(self, prior: Prior, problem: Problem, noise: Noise, watch: Watch = ignore) -> Tensor:
        begin(self, problem, noise)
        seen = self.seen(problem)
        y, std = problem.y_z, self.observation_noise
        points = grid(prior.schedule, self.steps, self.eta)
        x = first_state(points[0], problem, noise)
        for k, (t, s) in enumerate(pairwise(points[:-1])):
            x0, x1 = predict(prior, x, t)
            m = bridge(x0, x1, s)
            if not self.delayed:
                _, x1 = predict(prior, m + s.eta * noise.like(x), s)
            gain = s.eta**2 / (s.eta**2 + (s.alpha * std) ** 2) if s.eta > 0 else 0.0
            fresh = noise.like(x)
            pinned = (
                (1 - gain) * m + gain * (s.alpha * y + s.sigma * x1) + s.alpha * std * math.sqrt(gain) * fresh
            )
            x = torch.where(seen, pinned, m + s.eta * fresh)
            x = end_step(
                watch, k, self.steps - 2, s, x, (x - s.sigma * x1) / s.alpha, "eta='ddpm' or more steps"
            )
        return prior.x0(x, points[-2].t)

    def seen(self, problem: Problem) -> Tensor:
        """True where the latent is observed."""
        mask = torch.as_tensor(problem.observed).to(problem.y_z)
        return (erode(mask) if self.erode else mask) > 0.5
