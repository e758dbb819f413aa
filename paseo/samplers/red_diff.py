"""RED-diff: a variational latent μ, optimised with the denoiser as regulariser (Mardani et al., 2024).

    z = μ + s ξ₀,   x_t = α z + σ ε,   ε̂ = x̂₁(x_t)  without gradient
    loss = v · ½ mean (y − A(D(z)))² + λ w(t) · mean( sg[ε̂ − ε] · z )    one Adam step per level, high to low

so that the prior's gradient in μ is λ w (ε̂ − ε)/numel. Source: NVlabs/RED-diff and its SD3.5 port released
with DING.

Departures:
- means are per sample, so batches are allowed;
- μ starts at the encoded measurement (the port; the official code starts at A⁺y in pixels);
- σ/α is capped at `weight_cap` before any weighting is formed from it; the published ones have none. The
  default is the ratio of the port's own first level (σ = 0.9997), which a flow grid that starts at t = 1
  would exceed without bound; it binds on that first level alone, and never on a VP grid;
- s = 0.001 is the port's; the official code has 0. The official learning rate is 0.1, the port's 0.1 (0.2 for
inpainting,
  with constant weight); PASEO's paper tuned 1.6 (×4, ×8: the default), 3.2 (blur) and 0.8 (JPEG).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from paseo.base import Prior, Problem, Watch, ignore
from paseo.noise import Noise
from paseo.samplers.common import begin, end_step, leaf
from paseo.samplers.misfit import encoded, needs_pixels, pixel_gradient
from paseo.samplers.state import predict
from paseo.schedule import Point, grid
from paseo.setting import check_settings, setting

Weighting = Literal["linear", "sqrt", "square", "log", "clip", "two_thirds", "constant"]


@dataclass(frozen=True)
class REDDiff:
    steps: int = setting(80, "n", "time points; NFE = n − 1", "[3, 10000]")
    lr: float = setting(1.6, "", "learning rate of Adam", "[0, 1e6]", tune="0.01:5.0:log")
    prior_weight: float = setting(0.25, "λ", "weight of the prior's term", "[0, 1e6]", tune="0.01:4.0:log")
    measurement_weight: float = setting(1.0, "v", "weight of the data term", "[0, 1e6]")
    weighting: Weighting = setting("linear", "w(t)", "weight of a level as a function of σ/α")
    weight_cap: float = setting(2999.0, "", "largest w(t)", "(0, 1e9]")
    spread: float = setting(1e-3, "s", "std of the variational Gaussian", "[0, 1000]")
    betas: tuple[float, float] = setting((0.9, 0.99), "", "decays of Adam's moments", "[0, 1)")

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def nfe(self) -> int:
        return self.steps - 1

    def unsupported(self, problem: Problem) -> str | None:
        return needs_pixels(problem)

    @torch.no_grad()
    def __call__(self, prior: Prior, problem: Problem, noise: Noise, watch: Watch = ignore) -> Tensor:
        begin(self, problem, noise)
        points = grid(prior.schedule, self.steps, "ddpm")[:-1]
        mu = leaf(encoded(problem))
        adam = torch.optim.Adam([mu], lr=self.lr, betas=self.betas)
        for k, t in enumerate(points):
            shift = self.spread * noise.like(mu)
            eps = noise.like(mu)
            z = mu.detach() + shift
            x0, x1 = predict(prior, t.alpha * z + t.sigma * eps, t)
            mu.grad = self.gradient(problem, z, x1 - eps, t)
            adam.step()
            mu.data.copy_(end_step(watch, k, len(points), t, mu.detach().clone(), x0, "a smaller lr"))
        return mu.detach()

    def gradient(self, problem: Problem, z: Tensor, mistake: Tensor, t: Point) -> Tensor:
        """∇_μ of the loss; `mistake` is sg[ε̂ − ε]."""
        data = pixel_gradient(problem, z, lambda r: 0.5 * r.flatten(1).square().mean(1))
        prior = mistake / mistake[0].numel()  # of mean(sg[ε̂ − ε] · z)
        return self.measurement_weight * data + self.prior_weight * self.weight_at(t) * prior

    def weight_at(self, t: Point) -> float:
        """w(t), from the inverse signal-to-noise ratio σ/α."""
        ratio = min(t.level, self.weight_cap)
        return {
            "linear": ratio,
            "sqrt": math.sqrt(ratio),
            "square": ratio**2,
            "log": math.log1p(ratio),
            "clip": min(ratio, 1.0),
            "two_thirds": ratio ** (2 / 3),
            "constant": 1.0,
        }[self.weighting]
