"""PnP-Flow: forward–backward splitting with the flow denoiser (Martin et al., 2025). For each level, from
noise to clean:

    z ← z − γ ∇ ‖A(D(z)) − y‖²/(2σ_y²),   γ = lr · σ_y² · w(τ)
    z ← z − lr w J_DᵀAᵀ(A(D(z)) − y),         in which σ_y cancels
    z ← mean of S estimates x̂₀(α z + σ ξ)

The denoiser is not differentiated. Source: annegnx/PnP-Flow and its SD3.5 port released with DING.

Departures:
- autograd through A∘D in latent space (the official code is in pixels with an exact adjoint);
- S = 1 by default: the port overwrites its five samples by the batch size, which is why PASEO's paper counts
one call per
  level. The published S is 5;
- the levels are the noisy points of the grid. The port also visits σ = 0, where it takes one more data step
  and spends a call that returns its input: here the last data step is the one before the last estimate;
- z starts at the encoded measurement (the port); the official code starts at Aᵀ1, which the first level
forgets;
- the default lr 0.1 with constant w is the port's and PASEO's for blur (1.5 for ×4, 9.88 for ×8, 0.4 for
JPEG).
  w = τ^a with the official exponents is `weighting="power"`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from paseo.base import Prior, Problem, Watch, ignore
from paseo.noise import Noise
from paseo.samplers.common import begin, end_step
from paseo.samplers.misfit import encoded, half_square, needs_pixels, pixel_gradient
from paseo.samplers.state import flow_time
from paseo.schedule import Point, grid
from paseo.setting import check_settings, setting


@dataclass(frozen=True)
class PnPFlow:
    steps: int = setting(79, "", "noisy levels; NFE = steps · samples", "[2, 10000]")
    lr: float = setting(0.1, "", "step of the data term", "[0, 1e6]", tune="0.01:20.0:log")
    samples: int = setting(1, "S", "estimates averaged per level", "[1, 1000]")
    weighting: Literal["constant", "power"] = setting("constant", "w", "of a level", tune="constant,power")
    exponent: float = setting(1.0, "a", "exponent of τ^a", "[0, 100]", tune="0.25,0.5,1.0")

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def nfe(self) -> int:
        return self.steps * self.samples

    def unsupported(self, problem: Problem) -> str | None:
        return needs_pixels(problem)

    @torch.no_grad()
    def __call__(self, prior: Prior, problem: Problem, noise: Noise, watch: Watch = ignore) -> Tensor:
        begin(self, problem, noise)
        points = grid(prior.schedule, self.steps + 1, "ddpm")[:-1]
        z = encoded(problem)
        for k, t in enumerate(points):
            z = z - self.lr * self.weight_at(t) * pixel_gradient(problem, z, half_square)
            states = (t.alpha * z + t.sigma * noise.like(z) for _ in range(self.samples))
            z = torch.stack([prior.x0(x, t.t) for x in states]).mean(0)
            z = end_step(watch, k, self.steps, t, z, z, "a smaller lr")
        return z

    def weight_at(self, t: Point) -> float:
        return 1.0 if self.weighting == "constant" else flow_time(t) ** self.exponent
