"""The measurement:  y = A(x) + σ_y n,  n ~ N(0, I) at the measurement's own size.

Noise is added everywhere, also inside the hole of an inpainting mask, and the result is not clamped. Each
image's noise comes from its own seed, so it is the same alone or in a batch. The stream is not the one that
samplers draw from: seed 0 of a measurement and seed 0 of a sample share no numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from paseo.base import Degradation, Noise
from paseo.degrade.common import check_images
from paseo.degrade.compose import Compose
from paseo.errors import BadInput
from paseo.seeds import for_batch, stream_of
from paseo.units import to_signed, to_unit

_TOLERANCE = 1e-3  # images may stick out of [0,1] by this much: the rounding of low-precision types


def measure(
    x: Tensor, degradation: Degradation, sigma_y: float = 0.01, seeds: int | Sequence[int] = 0
) -> Tensor:
    """A noisy measurement of images x (B,3,H,W) in [0,1]; the result is in [0,1] units, at its own size,
    unclamped.

    `sigma_y` is the noise's standard deviation in [0,1] units. `seeds` is one seed per image, or a
    single integer that all of them use (`paseo.seeds`).
    """
    check_images(x, channels=3)
    low, high = float(x.min()), float(x.max())
    if not (low >= -_TOLERANCE and high <= 1 + _TOLERANCE):  # NaN as well
        raise BadInput(f"Images to be measured must be in [0,1], got values from {low:.3g} to {high:.3g}.")
    if not (isinstance(sigma_y, int | float) and math.isfinite(sigma_y) and sigma_y >= 0):
        raise BadInput(f"sigma_y must be a finite number of at least 0, in [0,1] units, got {sigma_y!r}.")
    if isinstance(degradation, Compose):
        y = to_unit(degradation.draw(to_signed(x), lambda y: measurement_noise(y, seeds, "grain")))
    else:
        y = to_unit(degradation(to_signed(x)))
    return y + sigma_y * measurement_noise(y, seeds) if sigma_y > 0 else y


def measurement_noise(y: Tensor, seeds: int | Sequence[int], stream: str = "measurement") -> Tensor:
    """Standard normal noise of y's shape, dtype and device; y[i] is served by the i-th seed's own stream of
    that name.
    """
    each = for_batch(seeds, len(y))
    if len(each) != len(y):
        raise BadInput(f"One image was given with {len(each)} seeds: repeat it to measure it several times.")
    with torch.no_grad():
        return Noise([stream_of(seed, stream) for seed in each]).like(y)
