"""A mixture of Gaussians Σ_k w_k N(μ_k, C_k), whose denoiser is known in closed form and is not linear:

E[z | x_t = x] = Σ_k p_k(x) E_k[z | x_t = x],    p_k(x) ∝ w_k N(x; α μ_k, α² C_k + σ² I)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from paseo.base import Noise
from paseo.errors import BadInput
from paseo.priors.covariance import Isotropic
from paseo.priors.gaussian import Gaussian
from paseo.schedule import Flow, Schedule


@dataclass(frozen=True, eq=False)
class Mixture:
    """Σ_k weights[k] · components[k], over latents of one shape."""

    weights: Tensor  # (K,), positive; scaled to sum 1
    components: tuple[Gaussian, ...]

    def __post_init__(self) -> None:
        w = self.weights.detach().to(torch.float64)
        if w.shape != (len(self.components),) or not (w > 0).all() or not torch.isfinite(w).all():
            raise BadInput(
                f"A mixture needs one positive weight per component, got {w.tolist()} for "
                f"{len(self.components)}."
            )
        if len({c.shape for c in self.components}) != 1:
            raise BadInput(
                f"The components live on different shapes: {sorted({c.shape for c in self.components})}."
            )
        object.__setattr__(self, "weights", w / w.sum())

    @property
    def shape(self) -> tuple[int, ...]:
        return self.components[0].shape

    def responsibilities(self, x: Tensor, alpha: float = 1.0, sigma: float = 0.0) -> Tensor:
        """(B, K): how likely αz + σε = x came from each component."""
        logs = torch.stack(
            [c.log_density(x.double(), alpha, sigma) for c in self.components], dim=1
        )  # large, nearly equal sums
        return (logs + self.weights.log().to(logs)).softmax(1).to(x)

    def sample(self, noise: Noise) -> Tensor:
        """One exact draw per generator: first the component, then its Gaussian."""
        uniform = 0.5 * (1.0 + torch.erf(noise.normal((len(noise), 1)).to(torch.float64) / math.sqrt(2.0)))
        chosen = (uniform > self.weights.cumsum(0)).sum(1).clamp_max(len(self.components) - 1)
        white = noise.normal((len(noise), *self.shape))
        draws = torch.stack(
            [c.mean + c.covariance.apply(torch.sqrt, white.to(c.mean)) for c in self.components], dim=1
        )
        return draws[torch.arange(len(noise)), chosen]

    def mean(self) -> Tensor:
        return sum(
            (w * c.mean for w, c in zip(self.weights.tolist(), self.components, strict=True)), torch.zeros(())
        )

    def covariance(self) -> Tensor:
        """(d, d) over the flattened latent: the components' own, plus the spread of their means."""
        centre = self.mean().to(torch.float64)
        offsets = [(c.mean.to(torch.float64) - centre).flatten() for c in self.components]
        return torch.stack(
            [
                w * (c.covariance.matrix() + m.outer(m))
                for w, c, m in zip(self.weights, self.components, offsets, strict=True)
            ]
        ).sum(0)


@dataclass(frozen=True, eq=False)
class MixturePrior(Mixture):
    """A mixture as a prior: exact x̂₀ at every time of `schedule`, exact draws by `sample`."""

    schedule: Schedule = field(default_factory=Flow)

    @classmethod
    def isotropic(
        cls,
        means: Sequence[Tensor] | Tensor,
        std: float,
        weights: Tensor | None = None,
        schedule: Schedule | None = None,
    ) -> MixturePrior:
        """Round components of one width."""
        shape = tuple(means[0].shape)
        parts = tuple(Gaussian(m, Isotropic(std**2, shape)) for m in means)
        return cls(torch.ones(len(parts)) if weights is None else weights, parts, schedule or Flow())

    def x0(self, x: Tensor, t: float) -> Tensor:
        p = self.schedule.point(t)
        if p.sigma == 0.0:
            return x / p.alpha
        parts = torch.stack([c.denoise(x, p.alpha, p.sigma) for c in self.components], dim=1)
        share = self.responsibilities(x, p.alpha, p.sigma)
        return (share.view(*share.shape, *[1] * (x.ndim - 1)) * parts).sum(1)
