"""A Gaussian prior N(μ, C), whose denoiser is known in closed form on every schedule:

    E[z | x_t = x] = μ + α C (α² C + σ² I)⁻¹ (x − α μ)

C is dense or diagonal in Fourier (`paseo.priors.covariance`), so a 16×64×64 latent with a natural 1/f
spectrum costs two FFTs per call. Problems with such a prior have a known posterior
(`paseo.priors.posterior`): here a sampler can be checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from paseo.base import Noise
from paseo.errors import BadInput
from paseo.priors.covariance import Covariance, Dense, Isotropic, Stationary, natural_spectrum
from paseo.schedule import Flow, Schedule


@dataclass(frozen=True, eq=False)
class Gaussian:
    """N(mean, covariance); the mean has the latent's shape, or (B, *shape) where each sample has its own.

    A plain matrix over the flattened latent will do as covariance.
    """

    mean: Tensor
    covariance: Covariance

    def __post_init__(self) -> None:
        if isinstance(self.covariance, Tensor):
            object.__setattr__(self, "covariance", Dense(self.covariance, tuple(self.mean.shape)))
        shape = self.covariance.shape
        if tuple(self.mean.shape) != shape and tuple(self.mean.shape[1:]) != shape:
            raise BadInput(
                f"A mean of shape {tuple(self.mean.shape)} does not fit a covariance on latents of shape "
                f"{shape}."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return self.covariance.shape

    def sample(self, noise: Noise) -> Tensor:
        """One exact draw per generator, in the mean's dtype."""
        white = noise.normal((len(noise), *self.shape)).to(self.mean)
        return self.mean + self.covariance.apply(torch.sqrt, white)

    def std(self) -> Tensor:
        """Standard deviation of each entry."""
        return self.covariance.diagonal().sqrt().to(self.mean)

    def log_density(self, x: Tensor, alpha: float = 1.0, sigma: float = 0.0) -> Tensor:
        """log density per sample of αz + σε at x, without the constant (d/2) log 2π."""
        variance = alpha**2 * self.covariance.values + sigma**2
        off = x - alpha * self.mean.to(x)
        weighted = self.covariance.apply(lambda v: 1.0 / (alpha**2 * v + sigma**2), off)
        return -0.5 * ((off * weighted).flatten(1).sum(1) + variance.log().sum().to(x))

    def denoise(self, x: Tensor, alpha: float, sigma: float) -> Tensor:
        """E[z | αz + σε = x]."""
        mean = self.mean.to(x)
        if tuple(x.shape[1:]) != self.shape:
            raise BadInput(
                f"This prior is over latents of shape {self.shape}, got a batch of {tuple(x.shape[1:])}."
            )
        return mean + self.covariance.apply(lambda v: gain(v, alpha, sigma), x - alpha * mean)


@dataclass(frozen=True, eq=False)
class GaussianPrior(Gaussian):
    """N(μ, C) as a prior: exact x̂₀ at every time of `schedule`, exact draws by `sample`."""

    schedule: Schedule = field(default_factory=Flow)

    @classmethod
    def dense(cls, mean: Tensor, covariance: Tensor, schedule: Schedule | None = None) -> GaussianPrior:
        """From a covariance matrix over the flattened latent."""
        return cls(mean, Dense(covariance, tuple(mean.shape)), schedule or Flow())

    @classmethod
    def stationary(
        cls, power: Tensor, mean: Tensor | float = 0.0, schedule: Schedule | None = None
    ) -> GaussianPrior:
        """From the power of each Fourier mode, (c, h, w)."""
        centre = torch.as_tensor(mean, dtype=torch.float32).expand(power.shape)
        return cls(centre, Stationary(power), schedule or Flow())

    @classmethod
    def natural(
        cls, shape: tuple[int, int, int], schedule: Schedule | None = None, exponent: float = 1.0
    ) -> GaussianPrior:
        """Zero mean, unit variance per entry, amplitude ∝ 1/f in every channel."""
        return cls.stationary(natural_spectrum(shape, exponent), schedule=schedule)

    @classmethod
    def white(
        cls, shape: tuple[int, ...], schedule: Schedule | None = None, std: float = 1.0
    ) -> GaussianPrior:
        """Zero mean, independent entries."""
        return cls(torch.zeros(shape), Isotropic(std**2, shape), schedule or Flow())

    def x0(self, x: Tensor, t: float) -> Tensor:
        p = self.schedule.point(t)
        return self.denoise(x, p.alpha, p.sigma)


def gain(v: Tensor, alpha: float, sigma: float) -> Tensor:
    """αv / (α²v + σ²), with 0 where the latent cannot vary and nothing blurs it."""
    total = alpha**2 * v + sigma**2
    return torch.where(total > 0, alpha * v / total.clamp_min(torch.finfo(v.dtype).tiny), 0.0)
