"""The loop that LDPS, PSLD and GML-DPS share: diffusion posterior sampling in latent space.

    x̂₀, x̂₁ at (x_t, t),   x̂ = D(x̂₀)                          with the denoiser's and the codec's graph
    x_s = α_s x̂₀ + √(σ_s² − η²) x̂₁ + η ξ
    x_s ← x_s − ∇_{x_t} error(x̂₀, x̂)                           error is the only thing the three differ in

The norms in `error` are not squared, as in the released code (the papers' algorithms square them:
`loss="square"`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from paseo.base import Prior, Problem, Watch, ignore
from paseo.noise import Noise
from paseo.samplers.common import begin, end_step, first_state, gradients, leaf, norms
from paseo.samplers.misfit import codec_of, degrade, needs_pixels, square
from paseo.samplers.state import bridge, checkpointed, predict, walk
from paseo.setting import check_settings, setting


@dataclass(frozen=True)
class LatentDPS:
    """Base of the family; as it stands, its error is LDPS's."""

    steps: int = setting(80, "n", "time points; NFE = n − 1", "[3, 10000]")
    guidance: float = setting(10.0, "ω", "weight of the measurement term", "[0, 1e6]", tune="0.1:100.0:log")
    # the SD3.5 port has 1, the released code 0
    eta: float = setting(1.0, "η", "width of the bridge: 1 ancestral, 0 DDIM", "[0, 1]", tune="0.0,1.0")
    loss: Literal["norm", "square"] = setting("norm", "", "‖r‖ or ‖r‖² of a residual")
    redraw_noise: bool = setting(False, "", "add fresh measurement noise to A(x̂), as the released code does")
    checkpoint: bool = setting(False, "", "never keep two networks' graphs at once; twice the denoiser calls")

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def nfe(self) -> int:
        return (self.steps - 1) * (2 if self.checkpoint else 1)

    def unsupported(self, problem: Problem) -> str | None:
        return needs_pixels(problem)

    def length(self, v: Tensor) -> Tensor:
        return norms(v) if self.loss == "norm" else square(v)

    def consistency(self, problem: Problem, image: Tensor, noise: Noise) -> Tensor:
        """ω ‖y − A(x̂)‖ per sample."""
        predicted = degrade(problem, image)
        if self.redraw_noise:
            predicted = predicted + problem.sigma_y * noise.like(predicted)
        return self.guidance * self.length(problem.y - predicted)

    def error(self, problem: Problem, x0: Tensor, image: Tensor, noise: Noise) -> Tensor:
        return self.consistency(problem, image, noise)

    @torch.no_grad()
    def __call__(self, prior: Prior, problem: Problem, noise: Noise, watch: Watch = ignore) -> Tensor:
        begin(self, problem, noise)
        codec = codec_of(problem)
        points = walk(prior.schedule, self.steps, eta=self.eta)
        x = first_state(points[0], problem, noise)
        for k, (t, s) in enumerate(pairwise(points)):
            fresh = noise.like(x)
            with gradients():
                x_in = leaf(x)
                x0, x1 = predict(prior, x_in, t, self.checkpoint)
                image = checkpointed(codec.decode, x0, self.checkpoint)
                (g,) = torch.autograd.grad(self.error(problem, x0, image, noise).sum(), x_in)
            x0, x1 = x0.detach(), x1.detach()
            del image
            x = bridge(x0, x1, s) + s.eta * fresh - g
            x = end_step(watch, k, self.steps - 1, s, x, x0, "a smaller guidance or more steps")
        return x
