"""Small problems whose posterior is known, seen alike by methods that work in the latent and in pixels.

    mask      a natural Gaussian prior, half of the cells hidden
    blur      the same prior behind a circular Gaussian blur
    mixture   four round modes of which the measurement cannot tell two apart, and rules out the others

Latents are 3×8×8 with unit variance and are their own images (identity codec), so A = H, and y = H z + r ε
with r = 0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from paseo.base import Prior, Problem
from paseo.codecs.identity import IdentityCodec
from paseo.errors import BadInput
from paseo.noise import Noise
from paseo.operators.exact import LatentBlur, LatentMask
from paseo.priors.gaussian import Gaussian, GaussianPrior
from paseo.priors.mixture import Mixture, MixturePrior
from paseo.priors.posterior import posterior
from paseo.schedule import VP, Flow, Schedule

SHAPE, R = (3, 8, 8), 0.2
SCHEDULES: dict[str, Schedule] = {"flow": Flow(), "vp": VP()}


@dataclass(frozen=True, eq=False)
class AsDegradation:
    """An exact latent operator as a degradation of images, for methods that compare in pixels."""

    operator: Any
    name: str
    linear: bool = True

    def __call__(self, x: Tensor) -> Tensor:
        return self.operator(x)

    def adjoint(self, y: Tensor, size: tuple[int, int] | None = None) -> Tensor:
        return self.operator.adjoint(y)

    def lift(self, y: Tensor, size: tuple[int, int] | None = None) -> Tensor:
        return y

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return height, width


@dataclass(frozen=True, eq=False)
class PosteriorCase:
    name: str
    prior: Any  # GaussianPrior or MixturePrior
    operator: Any

    def measure(self, seed: int) -> Tensor:
        """(1, *SHAPE): y of one draw of the prior, for the mixture of its first mode."""
        source = self.prior.components[0] if isinstance(self.prior, Mixture) else self.prior
        clean = self.operator(source.sample(Noise([seed])).float())
        return clean + R * Noise([seed + 10_000]).like(clean)

    def problem(self, y: Tensor, draws: int) -> Problem:
        y = y.expand(draws, *SHAPE)
        seen = self.operator.mask.expand(y.shape) if isinstance(self.operator, LatentMask) else None
        return Problem(
            y, y, R, self.operator, AsDegradation(self.operator, self.name), IdentityCodec(1), seen
        )

    def target(self, y: Tensor) -> Target:
        return Target.of(posterior(self.prior, self.operator, y, R), self.prior)

    @property
    def denoiser(self) -> Prior:
        return self.prior


@dataclass(frozen=True, eq=False)
class Target:
    """Mean and covariance of a posterior over flattened latents, and which directions the measurement
    shows.
    """

    law: Gaussian | Mixture
    mean: Tensor  # (d,)
    covariance: Tensor  # (d, d)
    directions: Tensor  # (d, d): eigenvectors of the covariance
    seen: Tensor  # (d,): along which of them the posterior is less than half as wide as the prior

    @classmethod
    def of(cls, law: Gaussian | Mixture, prior: Any) -> Target:
        if isinstance(law, Mixture):
            mean, covariance, wide = law.mean().double().flatten(), law.covariance(), prior.covariance()
        else:
            mean, covariance, wide = (
                law.mean[0].double().flatten(),
                law.covariance.matrix(),
                prior.covariance.matrix(),
            )
        values, vectors = torch.linalg.eigh(covariance)
        before = (vectors * (wide @ vectors)).sum(0)
        return cls(law, mean, covariance, vectors, values < 0.25 * before)


def cases(schedule: str) -> tuple[PosteriorCase, ...]:
    """The three problems on one kind of schedule."""
    if schedule not in SCHEDULES:
        raise BadInput(f"schedule={schedule!r} is not one of {', '.join(SCHEDULES)}.")
    noise = SCHEDULES[schedule]
    natural = GaussianPrior.natural(SHAPE, noise)
    half = torch.zeros(SHAPE[1:])
    half[:, : SHAPE[2] // 2] = 1.0
    return (
        PosteriorCase("mask", natural, LatentMask(half)),
        PosteriorCase("blur", natural, LatentBlur.gaussian(SHAPE[1:], 0.7)),
        PosteriorCase("mixture", modes(half, noise), LatentMask(half)),
    )


def modes(half: Tensor, schedule: Schedule, std: float = 0.3) -> MixturePrior:
    """Four modes: the first two agree on the seen half and differ on the hidden one, the others differ
    everywhere.
    """
    random = torch.Generator().manual_seed(11)
    a, b, c, d = (0.7 * torch.randn(SHAPE, generator=random) for _ in range(4))
    return MixturePrior.isotropic(
        [a, half * a + (1 - half) * b, c, d], std, torch.tensor([0.42, 0.18, 0.2, 0.2]), schedule
    )
