"""ReSample: hard data consistency by optimisation, then a stochastic resample (Song et al., 2024).

Every step, t → s:   x ← DDIM(x; η = 0) − guidance · α_t² · ∇_x ½‖y − A(D(x̂₀))‖²
Every `every`-th step of the last two thirds:
    z' = argmin ‖y − A(·)‖² from x̂₀, in pixels (middle third, then encoded) or in the latent (last third), by
    AdamW
    x ← (γ α z' + σ² x) / (γ + σ²) + √(γ σ² / (γ + σ²)) ξ,    γ = 40 · η_DDPM²        N(α z', σ²) × N(x, γ)

Source: soominkwon/resample and its SD3.5 port released with DING, which PASEO's paper used and whose settings
are the default.

Departures:
- port: it walks n − 1 intervals and spends an n-th call at σ = 0; here n calls walk n intervals. The
  resample of the last interval, which would leave noise in the result, is skipped;
- the port resamples at the level it comes from (`resample_level="from"`), the paper and the official code
  at the level it arrives at (`"to"`);
- official: no gradient through the denoiser (`differentiate=False`), an unsquared norm (`loss="norm"`,
  guidance 0.5), five more DDIM steps for a better estimate before each optimisation (`time_travel=5`, five
  more calls), a last optimisation of the result (`final_optimisation=True`), every=10, up to 2000 and 500
  iterations with `patience=200`, 500 steps;
- the official estimate (x − σ² ε̂)/α in place of Tweedie's (x − σ ε̂)/α is an error and is not offered;
- losses and stopping are per sample. The port's sums and the official means are the same to AdamW;
  `tolerance` bounds the mean squared error (official 1e-6; the port's bound is never reached).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from paseo.base import Prior, Problem, Watch, ignore
from paseo.noise import Noise
from paseo.samplers.common import begin, end_step, first_state, gradients, leaf, norms
from paseo.samplers.descent import descend
from paseo.samplers.misfit import codec_of, degrade, explain, half_square, needs_pixels, square
from paseo.samplers.state import bridge, checkpointed, predict, walk
from paseo.schedule import Point
from paseo.setting import check_settings, setting


@dataclass(frozen=True)
class ReSample:
    steps: int = setting(79, "", "denoising steps; NFE = steps, without time travel", "[3, 10000]")
    guidance: float = setting(
        0.15, "", "weight of a step's gradient; 0: none", "[0, 1e6]", tune="0.01:3.0:log"
    )
    loss: Literal["square", "norm"] = setting("square", "", "½‖r‖² or ‖r‖ of that gradient")
    differentiate: bool = setting(True, "", "that gradient passes through the denoiser")
    every: int = setting(15, "f", "steps between two optimisations", "[1, 1e9]", tune="5,10,15,25")
    max_iterations: int = setting(200, "", "iterations of an optimisation", "[0, 100000]")
    lr_pixel: float = setting(1e-2, "", "learning rate in pixels", "[0, 1000]")
    lr_latent: float = setting(5e-3, "", "learning rate in the latent", "[0, 1000]", tune="0.001:0.1:log")
    weight_decay: float = setting(1e-2, "", "of AdamW, whose default it is", "[0, 10]")
    resample_scale: float = setting(40.0, "", "γ over the DDPM variance", "(0, 1e9]", tune="4.0:400.0:log")
    resample_level: Literal["from", "to"] = setting("from", "", "the level that σ is read at")
    tolerance: float = setting(0.0, "", "mean squared error at which an optimisation stops", "[0, 1e6]")
    patience: int | None = setting(
        None, "", "iterations without progress after which a latent optimisation stops", "[1, 100000]"
    )
    time_travel: int = setting(0, "", "DDIM steps ahead before an optimisation", "[0, 10000]")
    final_optimisation: bool = setting(False, "", "optimise once more at the end")
    checkpoint: bool = setting(False, "", "recompute denoiser and decoder: less memory, twice the calls")

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def nfe(self) -> int:
        again = 2 if self.checkpoint and self.differentiate and self.guidance > 0 else 1
        return again * self.steps + sum(self.travelled(k) for k in range(self.steps) if self.stage(k))

    def unsupported(self, problem: Problem) -> str | None:
        return needs_pixels(problem)

    def stage(self, k: int) -> Literal["pixel", "latent"] | None:
        """What step k optimises after its DDIM move, if anything."""
        third = self.steps // 3
        if k % self.every != 1 % self.every or k < third or k == self.steps - 1:
            return None
        return "pixel" if k < 2 * third else "latent"

    def travelled(self, k: int) -> int:
        """DDIM steps of the time travel after step k; the last level cannot be denoised further."""
        return min(self.time_travel, self.steps - 1 - k)

    @torch.no_grad()
    def __call__(self, prior: Prior, problem: Problem, noise: Noise, watch: Watch = ignore) -> Tensor:
        begin(self, problem, noise)
        points = walk(prior.schedule, self.steps + 1)  # η is used for γ only
        x = first_state(points[0], problem, noise)
        for k, (t, s) in enumerate(pairwise(points)):
            x0, x1, g = self.predict(prior, problem, x, t)
            x = bridge(x0, x1, s, eta=0.0) - self.guidance * t.alpha**2 * g
            if stage := self.stage(k):
                ahead = points[k + 1 : k + 2 + self.travelled(k)]
                x0 = self.optimise(problem, ddim(prior, x, ahead) if len(ahead) > 1 else x0, stage)
                level = t if self.resample_level == "from" else s
                x = resample(x, x0, level, self.resample_scale * s.eta**2, noise.like(x))
            x = end_step(watch, k, self.steps, s, x, x0, "a smaller guidance or lr_latent")
        return self.optimise(problem, x, "latent") if self.final_optimisation else x

    def predict(
        self, prior: Prior, problem: Problem, x: Tensor, t: Point
    ) -> tuple[Tensor, Tensor, Tensor | float]:
        """x̂₀, x̂₁ and the gradient of the misfit in x (through the affine map 1/α alone if the denoiser is
        left out).
        """
        if self.guidance == 0:
            return *predict(prior, x, t), 0.0
        loss = half_square if self.loss == "square" else norms
        with gradients():
            x_in = leaf(x)
            if self.differentiate:
                x0, x1 = predict(prior, x_in, t, self.checkpoint)
                seed = x_in
            else:
                with torch.no_grad():
                    x0, x1 = predict(prior, x_in, t)
                seed = x0 = leaf(x0)
            value = loss(problem.y - checkpointed(lambda z: explain(problem, z), x0, self.checkpoint))
            (g,) = torch.autograd.grad(value.sum(), seed)
        if not self.differentiate:  # x̂₀ = (x − σ ε̂)/α with ε̂ held fixed; without signal, α = 0, no gradient
            g = g / t.alpha if t.alpha > 0 else torch.zeros_like(g)
        return x0.detach(), x1.detach(), g

    def optimise(self, problem: Problem, z: Tensor, stage: Literal["pixel", "latent"]) -> Tensor:
        """The clean latent after hard consistency."""
        codec = codec_of(problem)
        below = self.tolerance * problem.y[0].numel()
        if stage == "latent":
            return descend(
                z,
                lambda v: square(problem.y - explain(problem, v)),
                "adamw",
                self.lr_latent,
                self.max_iterations,
                weight_decay=self.weight_decay,
                stop_below=below,
                patience=self.patience,
            )
        image = descend(
            codec.decode(z),
            lambda v: square(problem.y - degrade(problem, v)),
            "adamw",
            self.lr_pixel,
            self.max_iterations,
            weight_decay=self.weight_decay,
            stop_below=below,
        )
        return codec.encode(image)


def ddim(prior: Prior, x: Tensor, points: list[Point]) -> Tensor:
    """The clean estimate after deterministic steps along `points`: one call per interval."""
    z = x
    for p, q in pairwise(points):
        z, x1 = predict(prior, x, p)
        x = bridge(z, x1, q, eta=0.0)
    return z


def resample(x: Tensor, z: Tensor, level: Point, gamma: float, fresh: Tensor) -> Tensor:
    """A draw from N(α z, σ²) × N(x, γ): x itself as γ → 0, a fresh state around z as γ → ∞."""
    total = gamma + level.sigma**2
    mean = (gamma * level.alpha * z + level.sigma**2 * x) / total
    return mean + math.sqrt(gamma * level.sigma**2 / total) * fresh
