"""What the codec cannot hold is carried over from the measurement, where the measurement can be trusted.

    x̂ = D(ẑ) + a (y − D(E(y)))

y − D(E(y)) is the detail that an encoding loses. A mild degradation leaves that detail intact, and a
restoration without it would be worse than the picture it started from; a strong one has put its own marks
there. The share a is a product over what was done, from 1 (hardly anything) to 0:

    jpeg          1 up to a coarseness of 3.95 (quality 35), 0 from 5.2 (quality 14), straight in between
    blur, motion  exp(−σ²), σ the widest width in px
    down-sampling what falls to 0 at a factor of 2: the finest detail was not measured
    noise         1 / (1 + (σ/0.01)²): detail and noise are carried alike
    masks         1 on seen pixels that lie further from the hole than an encoding looks, 0 inside
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from paseo.base import Degradation
from paseo.degrade.common import Size
from paseo.degrade.family import numbers_of, parts_of, with_found
from paseo.degrade.mask import Masking
from paseo.errors import Unsupported

_CLEAN, _GONE = 3.95, 5.2  # coarseness of a JPEG at which all and nothing is carried
_NOISE = 0.01  # σ at which half is carried
_LOOK = 12  # pixels around a hole whose encoding the hole disturbs


def carry_over(restored: Tensor, measured: Tensor, reconstructed: Tensor, share: Tensor | float) -> Tensor:
    """x̂ from D(ẑ), the lifted measurement y and D(E(y)), all in the same units; not clamped."""
    return restored + share * (measured - reconstructed)


def carried_share(degradation: Degradation, sigma_y: float, size: Size) -> Tensor | float:
    """a: one number, or a map (1 or B, 1, H, W) where pixels are hidden; 0 for what is not known."""
    parts = parts_of(degradation)
    try:
        share: Tensor | float = share_of(numbers_of(parts), sigma_y)
    except Unsupported:
        return 0.0
    for part in parts:
        if isinstance(part, Masking):
            hole = F.max_pool2d(1 - part.observed_at(*size), 2 * _LOOK + 1, stride=1, padding=_LOOK)
            share = share * (1 - hole)
    return share


def found_share(
    degradation: Degradation, found: Mapping[str, Sequence[float]], sigma_y: float
) -> Tensor | float:
    """a (B, 1, 1, 1) by the parameters that a blind run has found, instead of those it was told."""
    try:
        told = numbers_of(parts_of(degradation))
    except Unsupported:
        return 0.0
    rows = [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]
    return torch.tensor([share_of(with_found(told, row), sigma_y) for row in rows]).view(-1, 1, 1, 1)


def share_of(numbers: Mapping[str, float], sigma_y: float = 0.0) -> float:
    """a from the numbers of `condition_of` and the noise σ_y on [0,1] images."""
    coarse, octaves = numbers.get("coarseness", 0.0), numbers.get("octaves", 0.0)
    jpeg = min(max((_GONE - coarse) / (_GONE - _CLEAN), 0.0), 1.0)
    width = max(numbers.get("width_xx", 0.0), numbers.get("width_yy", 0.0))
    noise = math.hypot(sigma_y, numbers.get("grain", 0.0) / 10)
    return jpeg * math.exp(-(width**2)) * max(1 - octaves, 0.0) / (1 + (noise / _NOISE) ** 2)
