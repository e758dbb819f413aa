"""DDNM: denoising diffusion null-space model (Wang et al., 2023).

    z = x̂₀ − Λ A⁺(A x̂₀ − y)            Λ = 1: the range of Aᵀ from the measurement, the rest from the prior
    x_s = α_s z + c (η ξ + √(1−η²) x̂₁)  c = σ_s

DDNM+ (`plus=True`) knows that y is noisy, std σ_n: while σ_s ≥ α_s σ_n it keeps Λ = 1 and takes c = √(σ_s² −
α_s² σ_n²), so that the noise carried in by y is part of σ_s; below, Λ = σ_s/(α_s σ_n) and c = 0. The
noiseless limit r → 0 of PASEO's step with the denoised estimate as anchor (docs/methods.md). The denoiser is
not differentiated. Source: wyhuai/DDNM, pixels; here on latents.

Departures:
- A⁺ by conjugate gradients from zero (the Moore–Penrose inverse; exact after one iteration for a mask)
  instead of hand-made pseudo-inverses. For blur it amplifies noise without bound, as the released code
  does; a small `cg_budget` tames it;
- the formula of DDNM+ is followed, not the released code, which mixes ᾱ with α and applies the noise factor
  twice;
- time travel returns to the noisier level by re-noising the uncorrected x̂₀, as released; the default is
  off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from paseo.base import Prior, Problem, Watch, ignore
from paseo.noise import Noise
from paseo.samplers.common import begin, end_step, first_state
from paseo.samplers.linear import linear_model, needs_linear
from paseo.samplers.state import predict, walk
from paseo.schedule import Point
from paseo.setting import check_settings, setting


@dataclass(frozen=True)
class DDNM:
    steps: int = setting(80, "n", "time points; NFE = n − 1 without time travel", "[3, 10000]")
    eta: float = setting(0.85, "η", "part of the next noise that is fresh", "[0, 1]", tune="0.0,0.85,1.0")
    plus: bool = setting(False, "", "DDNM+, which knows the measurement's noise", tune="false,true")
    measurement_noise: float | None = setting(
        None, "σ_n", "of DDNM+, in the units of y; None reads 2σ_y from the problem", "[0, 1000]"
    )
    travel_length: int = setting(1, "", "steps walked back by one jump", "[1, 10000]")
    travel_repeat: int = setting(1, "", "times each stretch is walked; 1 is no time travel", "[1, 1000]")
    cg_budget: int = setting(50, "", "CG iterations of a projection", "[1, 10000]", tune="1:8:log")
    cg_tolerance: float = setting(1e-6, "", "relative residual at which a sample's CG stops early", "[0, 1]")

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def nfe(self) -> int:
        return len([0 for a, b in self.route() if b > a])

    def unsupported(self, problem: Problem) -> str | None:
        return needs_linear(problem)

    def route(self) -> list[tuple[int, int]]:
        """Moves between grid indices: forward by one (a call), or back by up to `travel_length` (re-noising,
        no call).
        """
        moves: list[tuple[int, int]] = []
        for start in range(0, self.steps - 1, self.travel_length):
            end = min(start + self.travel_length, self.steps - 1)
            stretch = [(i, i + 1) for i in range(start, end)]
            moves += stretch + ([(end, start), *stretch] * (self.travel_repeat - 1))
        return moves

    @torch.no_grad()
    def __call__(self, prior: Prior, problem: Problem, noise: Noise, watch: Watch = ignore) -> Tensor:
        begin(self, problem, noise)
        model = linear_model(problem)
        std = problem.sigma_y if self.measurement_noise is None else self.measurement_noise
        points = walk(prior.schedule, self.steps)
        x = first_state(points[0], problem, noise)
        x0, k = x, 0
        for a, b in self.route():
            t, s = points[a], points[b]
            if b < a:
                x = s.alpha * x0 + s.sigma * noise.like(x)
                continue
            x0, x1 = predict(prior, x, t)
            scale, spread = correction(s, std) if self.plus else (1.0, s.sigma)
            z = x0 + scale * (model.correct(x0, 1.0, 0.0, self.cg_budget, self.cg_tolerance) - x0)
            x = s.alpha * z + spread * (self.eta * noise.like(x) + math.sqrt(1 - self.eta**2) * x1)
            x = end_step(watch, k, self.nfe, s, x, z, "plus=True or a smaller cg_budget")
            k += 1
        return x


def correction(s: Point, std: float) -> tuple[float, float]:
    """(Λ, c) of DDNM+ at level s for measurement noise `std`."""
    carried = s.alpha * std
    return (1.0, math.sqrt(s.sigma**2 - carried**2)) if s.sigma >= carried else (s.sigma / carried, 0.0)
