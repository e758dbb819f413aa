"""SILO: guidance by a learned latent operator, through the denoiser's gradient (Raphaeli et al., 2025).

    x̂₀ = x̂₀(x_t),   x_s ~ ancestral step from x_t
    g   = ∇_{x_t} ‖y_z − H(x̂₀)‖₂                    through H and the denoiser; the norm is not squared
    x_s ← x_s − scale · clamp(g, −1, 1)              entrywise

Source: the paper and its released solver (ronraphaeli/SILO); on flow priors the extension used in PASEO's
SD3.5 tables, a bridge of DDPM width on the flow grid warped by `shift`, with the same guidance. Defaults:
PASEO's ×4 and ×8 settings there.

Departures:
- the norm is per sample, so batches are allowed (the released code takes one image);
- H is the operator network that PASEO uses, not the readout head that reads U-Net features;
- the last step lands on the clean level, where the released scheduler stops at σ ≈ 0.03;
- guidance of the classifier-free kind belongs to the prior, so its `cfg_fix` switch has no counterpart.
The released defaults are scale 0.5 (1 for inpainting), 999 steps, shift None, and `clamp_measurement` 4 for
×4, ×8 and blur.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from paseo.base import Prior, Problem, Watch, ignore
from paseo.noise import Noise
from paseo.samplers.common import begin, end_step, first_state, gradients, leaf, norms
from paseo.samplers.state import bridge, checkpointed, predict, walk
from paseo.setting import check_settings, setting

SHIFTS = "none,0.125,0.25,0.5,1.0,2.0"


@dataclass(frozen=True)
class SILO:
    steps: int = setting(79, "", "denoising steps; NFE = steps", "[2, 10000]")
    scale: float = setting(8.0, "η_S", "length of the guidance step", "[0, 1e6]", tune="0.25:64.0:log")
    # None walks the prior's own grid
    shift: float | None = setting(0.125, "k", "shift of a flow grid", "(0, 1000]", tune=SHIFTS)
    eta: float = setting(1.0, "η", "width of the bridge: 1 ancestral, 0 DDIM", "[0, 1]", tune="0.0,1.0")
    clamp_gradient: float | None = setting(1.0, "", "entrywise bound on g", "(0, 1e6]")
    clamp_measurement: float | None = setting(None, "", "entrywise bound on y_z", "(0, 1e6]")
    checkpoint: bool = setting(False, "", "recompute the denoiser: less memory, twice the calls")

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def nfe(self) -> int:
        return self.steps * (2 if self.checkpoint else 1)

    def unsupported(self, problem: Problem) -> str | None:
        return None

    @torch.no_grad()
    def __call__(self, prior: Prior, problem: Problem, noise: Noise, watch: Watch = ignore) -> Tensor:
        begin(self, problem, noise)
        points = walk(prior.schedule, self.steps + 1, eta=self.eta, shift=self.shift)
        y_z, bound = problem.y_z, self.clamp_measurement
        if bound is not None:
            y_z = y_z.clamp(-bound, bound)
        x = first_state(points[0], problem, noise)
        for k, (t, s) in enumerate(pairwise(points)):
            with gradients():
                x_in = leaf(x)
                x0, x1 = predict(prior, x_in, t, self.checkpoint)
                distance = norms(y_z - checkpointed(problem.operator, x0, self.checkpoint))
                (g,) = torch.autograd.grad(distance.sum(), x_in)
            x0, x1 = x0.detach(), x1.detach()
            if self.clamp_gradient is not None:
                g = g.clamp(-self.clamp_gradient, self.clamp_gradient)
            x = bridge(x0, x1, s) + s.eta * noise.like(x) - self.scale * g
            x = end_step(watch, k, self.steps, s, x, x0, "a smaller scale")
        return x
