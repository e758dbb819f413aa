"""Is the truth one more draw? The paper's checks of a set of draws against the latent that was measured.

    spread   RMS distance between two draws ÷ RMS distance from a draw to the truth; 1 when calibrated
    ranks    the rank of the truth among the draws, entry by entry: uniform when calibrated; TV is its
             distance from that
    bands    energy of the draws in a Fourier band ÷ energy of the truth; 1 is the right amount of detail

Figures are ratios of sums over units, and their standard errors are jackknifed over units. The channels of a
stationary prior are independent, so each channel of each image is a unit there; those of a learned prior
are not, so a whole image is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from paseo.priors.covariance import radial_frequency

BANDS: dict[str, tuple[float, float]] = {  # cycles per latent cell
    "coarse": (0.0, 0.1),
    "medium": (0.1, 0.3),
    "fine": (0.3, 0.4),
    "finest": (0.4, 0.75),
}


@dataclass(frozen=True, eq=False)
class Evidence:
    """Sums over units (one per image, or one per image and channel), enough for every figure."""

    between: Tensor  # (U,) mean squared distance between two draws
    to_truth: Tensor  # (U,) mean squared distance from a draw to the truth
    ranks: Tensor  # (U, K+1) how often the truth had each rank among K draws
    drawn: Tensor  # (U, 4) energy of the draws per band
    true: Tensor  # (U, 4) energy of the truth per band

    def __add__(self, other: Evidence) -> Evidence:
        pairs = zip(self._parts, other._parts, strict=True)
        return Evidence(*(torch.cat(pair) for pair in pairs))

    def pooled(self) -> Evidence:
        """All units as one."""
        return Evidence(*(part.sum(0, keepdim=True) for part in self._parts))

    @property
    def _parts(self) -> tuple[Tensor, ...]:
        return self.between, self.to_truth, self.ranks, self.drawn, self.true

    def spread(self) -> tuple[float, float]:
        return _jackknife(lambda a, b: (a.sum(0) / b.sum(0)).sqrt(), self.between, self.to_truth)

    def band(self, name: str) -> tuple[float, float]:
        i = list(BANDS).index(name)
        return _jackknife(lambda a, b: a.sum(0) / b.sum(0), self.drawn[:, i], self.true[:, i])

    def histogram(self) -> Tensor:
        """Frequency of each rank, (K+1,)."""
        counts = self.ranks.sum(0)
        return counts / counts.sum()

    def tv(self) -> float:
        """Total variation between the histogram and the uniform one."""
        h = self.histogram()
        return 0.5 * (h - 1.0 / h.numel()).abs().sum().item()


def evidence(
    draws: Tensor, truth: Tensor, region: Tensor | None = None, independent_channels: bool = True
) -> Evidence:
    """From draws (K, c, h, w) and their truth (1, c, h, w); distances and ranks may be limited to a region
    (h, w) of cells. Channels are units of their own where they are independent.
    """
    inside = torch.ones(draws.shape[-2:], dtype=torch.bool) if region is None else region
    z, z_true = draws.double()[..., inside], truth.double()[..., inside]  # (K, c, n)
    count = draws.shape[0]
    rank = (z < z_true).sum(0)  # (c, n)
    ranks = torch.stack([torch.bincount(r, minlength=count + 1) for r in rank]).double()
    found = Evidence(
        2.0 * z.var(0).sum(-1),
        (z - z_true).square().sum(-1).mean(0),
        ranks,
        band_energy(draws),
        band_energy(truth),
    )
    return found if independent_channels else found.pooled()


def band_energy(z: Tensor) -> Tensor:
    """(c, 4): energy per channel and band, averaged over the batch."""
    f = radial_frequency(*z.shape[-2:])
    power = torch.fft.fft2(z.double(), norm="ortho").abs().square().mean(0)
    return torch.stack([power[..., (f >= low) & (f < high)].sum(-1) for low, high in BANDS.values()], dim=-1)


def _jackknife(figure: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> tuple[float, float]:
    """A figure of two sets of units, and its standard error from leaving out one unit at a time."""
    value, n = figure(a, b).item(), a.shape[0]
    if n < 2:
        return value, float("inf")
    kept = ~torch.eye(n, dtype=torch.bool)
    left_out = torch.stack([figure(a[k], b[k]) for k in kept])
    return value, ((n - 1) / n * (left_out - left_out.mean()).square().sum()).sqrt().item()
