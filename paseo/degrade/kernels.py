"""Blur kernels with a direction: a Gaussian of two widths, and the path of a moving camera.

    Gaussian   k(u) ∝ exp(−½ uᵀ Σ⁻¹ u),   Σ = R(φ) diag(a², b²) R(φ)ᵀ
    motion     a straight, even line of length L at the angle φ, spread over the pixels it crosses

Angles are in degrees, counter-clockwise from the picture's horizontal, and turn by halves: 190° is 10°. What
an operator is told of a kernel are its second moments Σ in px²: they do not jump when an angle turns over,
and a blur after a blur adds its own.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

Moments = tuple[float, float, float]
"""Σ_xx, Σ_xy, Σ_yy of a kernel in px², y upwards."""

_REACH = 4.0  # widths after which a Gaussian is cut, as in `GaussianBlur`
_POINTS_PER_PIXEL = 32  # of a motion path


def gaussian_moments(a: float, b: float, angle: float) -> Moments:
    """Σ of a Gaussian whose width is a along the angle and b across it."""
    c, s = _direction(angle)
    return a * a * c * c + b * b * s * s, (a * a - b * b) * c * s, a * a * s * s + b * b * c * c


def motion_moments(length: float, angle: float) -> Moments:
    """Σ of an even line: its variance along the path is L²/12."""
    c, s = _direction(angle)
    v = length * length / 12
    return v * c * c, v * c * s, v * s * s


def moments_of(kernel: Tensor) -> Moments:
    """Σ of any kernel of sum 1, around its own centre."""
    h, w = kernel.shape
    y, x = (torch.arange(n, dtype=torch.float64) - n // 2 for n in (h, w))
    x, y = x[None, :].expand(h, w), -y[:, None].expand(h, w)
    x, y = (v - (kernel * v).sum() for v in (x, y))
    return float((kernel * x * x).sum()), float((kernel * x * y).sum()), float((kernel * y * y).sum())


def widths_of(moments: Moments) -> Moments:
    """The symmetric root of Σ, in pixels: (σ, 0, σ) for a round kernel of width σ."""
    xx, xy, yy = moments
    root = math.sqrt(max(xx * yy - xy * xy, 0.0))  # √det Σ; then √Σ = (Σ + √det·I) / √(tr Σ + 2√det)
    scale = math.sqrt(xx + yy + 2 * root)
    if scale == 0:
        return 0.0, 0.0, 0.0
    return (xx + root) / scale, xy / scale, (yy + root) / scale


@lru_cache(maxsize=64)
def gaussian_kernel(a: float, b: float, angle: float) -> Tensor:
    """(n, n) float64 with odd n and sum 1; rows run downwards."""
    xx, xy, yy = gaussian_moments(a, b, angle)
    radius = int(_REACH * max(a, b) + 0.5)
    with torch.inference_mode(False):
        u = torch.arange(-radius, radius + 1, dtype=torch.float64)
        x, y = u[None, :], -u[:, None]
        det = xx * yy - xy * xy
        k = torch.exp(-0.5 * (yy * x * x - 2 * xy * x * y + xx * y * y) / det)
        return k / k.sum()


@lru_cache(maxsize=64)
def motion_kernel(length: float, angle: float) -> Tensor:
    """(n, n) float64 with odd n and sum 1: points along the path, each shared by its four nearest pixels."""
    c, s = _direction(angle)
    count = max(1, round(length * _POINTS_PER_PIXEL))
    radius = math.ceil(length / 2) + 1
    with torch.inference_mode(False):
        t = (torch.arange(count, dtype=torch.float64) + 0.5) / count - 0.5
        x, y = radius + length * t * c, radius - length * t * s
        k = torch.zeros(2 * radius + 1, 2 * radius + 1, dtype=torch.float64)
        for i in (y.floor(), y.floor() + 1):
            for j in (x.floor(), x.floor() + 1):
                share = (1 - (y - i).abs()) * (1 - (x - j).abs())
                k.index_put_((i.long(), j.long()), share, accumulate=True)
        return k / k.sum()


def _direction(angle: float) -> tuple[float, float]:
    return math.cos(math.radians(angle)), math.sin(math.radians(angle))
