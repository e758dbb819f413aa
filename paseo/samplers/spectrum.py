"""The width of a blur, and whatever else shows in the spectrum of a measurement, by its marginal likelihood.

Photographs know no scale: the power of their frequencies falls like A ω^−α, with α about 2¼. Behind a linear
degradation of transfer |H_c(ω)| and under white noise, that of the measurement is

    S_c(ω) = A ω^−α |H_c(ω)|² + s²

and its periodogram P, averaged over rings of about equal frequency, has the likelihood (Whittle, 1953)

    −log p(P | c, A, α, s) = n Σ_rings ( P / S_c + log S_c )

A, α and s are not sought, and are fitted anew for each c on a grid by Fisher scoring, with priors
α ~ N(2.25, 0.42²) and log s² ~ N(log of the noise level that was told, 1). No picture is restored for it: the
prior knows no edges, only how fine detail thins out, which a blur changes in a way no picture does.

Photographs are no Gaussian fields, so a ring counts for n = 10 independent entries, however many it has: the
spread of σ is then about that of its errors (docs/what-happened.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from paseo.base import Knob

RINGS = 32  # between zero and the largest frequency of an axis
LOWEST = 2  # the first rings hold the window's own width
GRID = 101  # values of c
COUNT = 10.0  # n
ALPHA, ALPHA_STD = 2.25, 0.42
FLOOR_STD = 1.0  # of log s²
ROUNDING = (2 / 255) ** 2 / 12  # variance of 8 bit on images in [-1,1]
ITERATIONS = 40


@dataclass(frozen=True)
class Estimate:
    """A coordinate of a knob, and how far it may be off."""

    value: float
    std: float


@dataclass(frozen=True, eq=False)
class Rings:
    """The periodogram of a picture in rings of frequencies, and the rings themselves."""

    power: Tensor  # (F,)
    square: Tensor  # (F,): mean ω², in (radians per pixel)²
    index: Tensor  # (H, W): the ring of every frequency, F where it belongs to none
    vertical: Tensor  # (H, 1): ω of rows
    horizontal: Tensor  # (1, W): and of columns

    @classmethod
    def of(cls, picture: Tensor) -> Rings:
        """Of one picture (C,H,W), its channels averaged."""
        grey = picture.detach().cpu().double().mean(0)
        height, width = grey.shape
        window = torch.outer(*(torch.hann_window(n + 2, periodic=False)[1:-1].double() for n in grey.shape))
        grey = (grey - (grey * window).sum() / window.sum()) * window
        power = torch.fft.fft2(grey).abs().square() / window.square().sum()
        rows, columns = (2 * math.pi * torch.fft.fftfreq(n).double() for n in (height, width))
        square = rows[:, None].square() + columns.square()
        ring = (square.sqrt() * RINGS / math.pi).round().long()
        _, order = ring[(ring >= LOWEST) & (ring <= RINGS)].unique(return_inverse=True)
        index = torch.full_like(ring, int(order.max()) + 1 if len(order) else 0)
        index[(ring >= LOWEST) & (ring <= RINGS)] = order
        return cls(_means(power, index), _means(square, index), index, rows[:, None], columns[None])

    def seen_through(self, knob: Knob, value: float) -> Tensor:
        """(F,): the mean of |H_c|² over each ring."""
        assert knob.transfer is not None
        return _means(knob.transfer(value, self.vertical, self.horizontal).square(), self.index)


def estimate(picture: Tensor, sigma: float, knob: Knob) -> Estimate:
    """The likeliest coordinate of a knob that has a transfer, for one measurement (C,H,W) in [-1,1] with
    white noise of about `sigma`.
    """
    rings = Rings.of(picture)
    values = torch.linspace(knob.low, knob.high, GRID).double()
    if len(rings.power) < LOWEST + 2:  # a picture of a few pixels shows nothing
        return Estimate(knob.value, (knob.high - knob.low) / math.sqrt(12))
    through = torch.stack([rings.seen_through(knob, v) for v in values.tolist()])
    noise = (sigma**2 + ROUNDING) / picture.shape[0]
    unlikely = Fit(rings, through, noise).misfits()
    weight = torch.softmax(-unlikely, dim=0)
    mean = (weight * values).sum()
    std = (weight * (values - mean).square()).sum().sqrt()
    return Estimate(float(_least(values, unlikely)), float(std))


@dataclass(frozen=True, eq=False)
class Fit:
    """What is not sought, θ = (log A, α, log s²), at every value of c at the same time."""

    rings: Rings
    through: Tensor  # (K, F): |H_c|²
    noise: float  # s² as told

    def misfits(self) -> Tensor:
        """(K,): −log p at the best θ of each c, with its priors."""
        P, half = self.rings.power, self.rings.square.log() / 2  # log ω
        mean = torch.tensor([0.0, ALPHA, math.log(self.noise)], dtype=torch.float64)
        precise = torch.tensor([0.0, ALPHA_STD**-2, FLOOR_STD**-2], dtype=torch.float64)

        def parts(theta: Tensor) -> tuple[Tensor, Tensor]:
            """The picture's own power behind H_c, and S_c."""
            signal = torch.exp(theta[:, :1] - theta[:, 1:2] * half) * self.through
            return signal, signal + theta[:, 2:].exp()

        def misfit(theta: Tensor) -> Tensor:
            _, S = parts(theta)
            prior = (precise * (theta - mean).square()).sum(1) / 2
            return COUNT * (P / S + S.log()).sum(1) + prior

        theta = mean.repeat(len(self.through), 1)
        theta[:, 0] = (P[0].clamp_min(self.noise) * self.rings.square[0] ** (ALPHA / 2)).log()
        best = misfit(theta)
        for _ in range(ITERATIONS):
            signal, S = parts(theta)
            J = torch.stack([signal / S, -half * signal / S, theta[:, 2:].exp() / S], dim=2)  # ∂ log S / ∂θ
            gradient = COUNT * (J * (1 - P / S)[:, :, None]).sum(1) + precise * (theta - mean)
            fisher = COUNT * J.mT @ J + torch.diag(precise) + 1e-6 * torch.eye(3, dtype=torch.float64)
            step = torch.linalg.solve(fisher, gradient[:, :, None])[:, :, 0].clamp(-1, 1)
            for share in (1.0, 0.4, 0.16, 0.06):  # per value: a step that does not help is shortened
                tried = theta - share * step
                found = misfit(tried)
                better = found < best
                theta, best = torch.where(better[:, None], tried, theta), torch.where(better, found, best)
                step = torch.where(better[:, None], 0.0, step)
        return best


def _means(entries: Tensor, index: Tensor) -> Tensor:
    """(F,): the means of a map (H,W) over the rings."""
    rings = int(index.max())
    flat, values = index.flatten(), entries.expand(index.shape).flatten()
    return (torch.bincount(flat, values) / torch.bincount(flat).clamp_min(1))[:rings]


def _least(values: Tensor, misfits: Tensor) -> Tensor:
    """Where a parabola through the least entry and its neighbours is least; the entry itself at an end."""
    i = int(misfits.argmin())
    if i in (0, len(values) - 1):
        return values[i]
    before, here, after = misfits[i - 1 : i + 2].tolist()
    return values[i] + (values[1] - values[0]) * (before - after) / (2 * (before - 2 * here + after))
