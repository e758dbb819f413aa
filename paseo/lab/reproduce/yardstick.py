"""Exact references for a stationary Gaussian prior: what the sampler draws with nothing observed, and
posterior draws.

With nothing observed, PASEO is a linear recursion in each Fourier mode: of power v, the state's variance
follows V ← a² V + η² with a = α_s k + √(σ_s² − η²)(1 − α_t k)/σ_t and k the denoiser's gain, and the last
estimate multiplies by k². The discretisation and the last denoising are in there, so the posterior under that
power is what calibrates its draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from paseo.linalg import cg
from paseo.noise import Noise
from paseo.operators.exact import LatentBlur, LatentMask
from paseo.priors.covariance import Stationary
from paseo.priors.gaussian import Gaussian, gain
from paseo.priors.posterior import stationary_posterior
from paseo.schedule import Point


def sampler_power(power: Tensor, points: Sequence[Point]) -> Tensor:
    """The power of what the sampler draws from a prior of this power when nothing is observed; `points` as
    `grid` gives them.
    """
    variance = torch.full_like(power, points[0].scale ** 2)
    for t, s in pairwise(points[:-1]):
        k = gain(power, t.alpha, t.sigma)
        a = s.alpha * k + max(s.sigma**2 - s.eta**2, 0.0) ** 0.5 * (1.0 - t.alpha * k) / t.sigma
        variance = a**2 * variance + s.eta**2
    last = points[-2]
    return gain(power, last.alpha, last.sigma) ** 2 * variance


def exact_draws(
    power: Tensor, operator: LatentMask | LatentBlur, y: Tensor, r: float, noise: Noise
) -> Tensor:
    """Draws of p(z | y) for z ~ N(0, Fᴴ diag(power) F) and y = H z + r ε, (1, c, h, w)."""
    if isinstance(operator, LatentBlur):
        prior = Gaussian(torch.zeros_like(power), Stationary(power))
        return stationary_posterior(prior, operator.transfer, y, r).sample(noise)
    return masked_draws(power, operator.mask.double(), y.double(), r, noise)


def masked_draws(power: Tensor, mask: Tensor, y: Tensor, r: float, noise: Noise) -> Tensor:
    """Perturb and solve in precision form, (C⁻¹ + M/r²) z = C^{-1/2} ξ₁ + M (y + r ξ₂)/r², with a converged
    CG.

    The diagonal of the left-hand side scales the system: without it the seen cells, 1/r² strong, hide the
    others.
    """
    C = Stationary(power)
    xi_1, xi_2 = (noise.normal((len(noise), *power.shape)).double() for _ in range(2))
    right = C.apply(torch.rsqrt, xi_1) + mask * (y + r * xi_2) / r**2
    scale = (mask / r**2 + (1.0 / power).mean()).rsqrt()

    def A(u: Tensor) -> Tensor:
        z = scale * u
        return scale * (C.apply(torch.reciprocal, z) + mask * z / r**2)

    return scale * cg(A, scale * right, budget=1000, tolerance=1e-8).v
