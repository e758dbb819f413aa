"""Drawing from a prior alone, nothing observed: what the model believes images look like.

x0 = E[z | x],   x ← α_s x0 + σ_s (x − α_t x0)/σ_t    DDIM without noise (Song et al., 2021), Euler on a flow
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from paseo.base import Prior, Step, Watch, ignore
from paseo.noise import Noise
from paseo.samplers.guard import check_finite, show
from paseo.schedule import grid


@torch.no_grad()
def unconditional(
    prior: Prior,
    shape: tuple[int, ...],
    noise: Noise,
    steps: int = 50,
    watch: Watch = ignore,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Clean latents (B, …) from steps − 1 denoiser calls, one seed per sample."""
    points = grid(prior.schedule, steps, "ddpm")
    x = points[0].scale * noise.normal(shape).to(device)
    z = x
    for k, (t, s) in enumerate(pairwise(points)):
        z = prior.x0(x, t.t)
        x = s.alpha * z + s.sigma * (x - t.alpha * z) / t.sigma
        check_finite(z, k, steps - 1, t)
        x = show(watch, Step(k, steps - 1, s, x, z))
    return z
