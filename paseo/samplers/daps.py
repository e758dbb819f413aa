"""DAPS: decoupled annealing posterior sampling (Zhang et al., 2025). In the VE view, ς = σ/α:

    x̂₀ by a few probability-flow steps from level ς_k
    J times   z ← z + h_k [−∇ ½‖y − A(D(z))‖²/τ² + (x̂₀ − z)/ς_k²] + √(2 h_k) ξ,   from z = x̂₀
    x ← α_s z + σ_s ξ at the next level

The denoiser is not differentiated; the decoder is, J times per level. Source: zhangbingliang2019/DAPS (latent
version) and its SD3.5 port released with DING, whose settings are the default.

Departures:
- port: its third call per level is made at σ = 0, where it returns its input. Here the same three calls are
spent on two
  probability-flow steps and the clean estimate after them, at t, 2t/3 and t/3;
- official: `ode="edm"` takes M Euler steps to ς = 0.001 without that last estimate (M calls per level);
  `likelihood="square"` drops the ½ and `clip=1` bounds the gradient entrywise before it is divided by τ²;
  `dynamics="hmc"` is its default for latents;
- annealing: `anneal="edm"` walks ς = 10 … 0.1 by the power-7 rule and then goes to 0; the official grid
  puts 0 in the place of 0.1, so its lowest noisy level is the one before. With "native" the first level of
  a flow (t = 1, no signal) is skipped, as in the port;
- ratio: h falls linearly, h_k = h (1 + k/(N + 1) (ratio − 1)) over N levels, as in the official code, so the
  last level stays a little above ratio · h. The ratio 0.43 for every task is the port's; the official code
  has it for box inpainting and 1 for ×4 and blur;
- last level: the result is z itself after the last exploration, with no renoising and no further estimate;
- where the official code returns zeros after a NaN, an error names the step.
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
from paseo.samplers.common import begin, end_step, first_state
from paseo.samplers.misfit import half_square, needs_pixels, pixel_gradient, square
from paseo.samplers.state import bridge, predict
from paseo.schedule import VE, OnLevels, Point, Schedule
from paseo.setting import check_settings, setting

FLOOR = 0.001  # lowest level of the official inner ODE


@dataclass(frozen=True)
class DAPS:
    steps: int = setting(28, "n", "time points; n − 2 levels", "[3, 10000]")
    ode_steps: int = setting(2, "M", "probability-flow steps per level", "[1, 1000]")
    mcmc_steps: int = setting(20, "J", "steps of the dynamics per level", "[0, 10000]")
    step_size: float = setting(3e-5, "h", "step of the dynamics", "[0, 1]", tune="1e-7:1e-2:log")
    step_ratio: float = setting(0.43, "", "last h over the first", "[0, 1000]", tune="0.1,0.43,1.0")
    tau: float = setting(0.01, "τ", "likelihood's std in [-1,1] units", "(0, 100]", tune="0.005:0.2:log")
    dynamics: Literal["langevin", "hmc"] = setting("langevin", "", "how a level's posterior is explored")
    momentum: float = setting(0.9, "μ", "momentum of hmc", "[0, 1)")
    likelihood: Literal["half", "square"] = setting("half", "", "½‖r‖² or ‖r‖²")
    clip: float | None = setting(None, "", "entrywise bound on the gradient before 1/τ²", "(0, 1e6]")
    ode: Literal["native", "edm"] = setting("native", "", "inner steps: the prior's, or the official")
    anneal: Literal["native", "edm"] = setting("native", "", "levels: the prior's, or the official")

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def nfe(self) -> int:
        return (self.steps - 2) * (self.ode_steps + (self.ode == "native"))

    def unsupported(self, problem: Problem) -> str | None:
        return needs_pixels(problem)

    @torch.no_grad()
    def __call__(self, prior: Prior, problem: Problem, noise: Noise, watch: Watch = ignore) -> Tensor:
        begin(self, problem, noise)
        levels = self.levels(prior.schedule)
        total = len(levels) - 1
        x = first_state(levels[0], problem, noise)
        z = x
        for k, (t, s) in enumerate(pairwise(levels)):
            x0 = self.denoise(prior, x, t)
            h = self.step_size * (1 + k / (total + 1) * (self.step_ratio - 1))
            z = self.explore(problem, x0, t.level, h, noise)
            x = s.alpha * z + s.sigma * noise.like(z)
            x = end_step(watch, k, total, s, x, z, "a smaller step_size or clip=1")
        return z

    def levels(self, schedule: Schedule) -> list[Point]:
        """The n − 2 noisy levels and the clean one; a level without signal (flow at t = 1) is skipped."""
        if self.anneal == "native":
            return [schedule.point(t) for t in schedule.times(self.steps)][1:]
        warped = OnLevels(schedule, VE(10.0, 0.1))
        return [warped.point(t) for t in warped.times(self.steps - 1)]

    def denoise(self, prior: Prior, x: Tensor, t: Point) -> Tensor:
        """x̂₀ by M deterministic steps from t, and one estimate after them (native) or none (edm)."""
        if self.ode == "native":
            inner = [
                prior.schedule.point(t.t * (1 - i / (self.ode_steps + 1)))
                for i in range(1, self.ode_steps + 1)
            ]
        else:
            a, b = t.level ** (1 / 7), FLOOR ** (1 / 7)
            inner = [
                prior.schedule.at_level((a + (b - a) * i / self.ode_steps) ** 7)
                for i in range(1, self.ode_steps + 1)
            ]
        for p, q in pairwise([t, *inner]):
            x = bridge(*predict(prior, x, p), q, eta=0.0)
        return prior.x0(x, inner[-1].t) if self.ode == "native" else x / inner[-1].alpha

    def explore(self, problem: Problem, x0: Tensor, level: float, h: float, noise: Noise) -> Tensor:
        """J steps of Langevin or Hamiltonian dynamics on N(x̂₀, ς² I) × likelihood, from x̂₀."""
        z, v = x0, noise.like(x0) if self.dynamics == "hmc" else x0
        for _ in range(self.mcmc_steps):
            score = self.score(problem, z, x0, level)
            if self.dynamics == "langevin":
                z = z + h * score + math.sqrt(2 * h) * noise.like(z)
            else:
                v = (
                    self.momentum * v
                    + math.sqrt(h) * score
                    + math.sqrt(2 * (1 - self.momentum)) * noise.like(z)
                )
                z = z + math.sqrt(h) * v
        return z

    def score(self, problem: Problem, z: Tensor, x0: Tensor, level: float) -> Tensor:
        """∇ log of the local posterior at z."""
        g = pixel_gradient(problem, z, half_square if self.likelihood == "half" else square)
        if self.clip is not None:
            g = g.clamp(-self.clip, self.clip)
        return -g / self.tau**2 + (x0 - z) / level**2
